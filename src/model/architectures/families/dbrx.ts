import type { DecoderSpec } from '../../DecoderSpec.js';
import { wholeHeadRotary } from '../configRotary.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { gatedGguf } from '../gatedDecoder.js';
import { withExperts } from '../mixture.js';
import { activation, dividedHeadDim, rotary, sameLayers } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, ggufExperts, ggufGlobals, head, weights } from '../weights.js';
import { withClip } from './olmo.js';

const LAYER = '{base}blocks.{layer}.';
/** torch's default: the configuration has no key for it. */
const EPSILON = 1e-5;

/** DBRX: layer norms without biases, queries, keys and values that are clipped, experts one below another. */
export const dbrx: Family = {
  modelTypes: ['dbrx'],
  fromConfig(config: Fields): Description {
    const child = (key: string): Fields => config.child(key) ?? Fields.ofObject(config.file, {}, key);
    const [attention, block] = [child('attn_config'), child('ffn_config')];
    const hiddenSize = config.integer('d_model', LIMITS.hidden, 2048);
    const heads = config.integer('n_heads', LIMITS.heads, 16);
    const headDim = dividedHeadDim(config, hiddenSize, heads, 'n_heads');
    const layers = config.integer('n_layers', LIMITS.layers, 24);
    const context = config.integer('max_seq_len', LIMITS.context, 2048);
    const theta = attention.number('rope_theta', LIMITS.theta, 10000);
    const { table, contextTokens } = wholeHeadRotary(config, headDim, context, theta);
    const normalised = block.raw('moe_normalize_expert_weights') !== null;
    if (normalised && block.number('moe_normalize_expert_weights', { min: 0, max: 1e3 }, 1) !== 1)
      block.refuse('moe_normalize_expert_weights', '1 or null');
    const name = block.child('ffn_act_fn') ?? Fields.ofObject(config.file, {}, 'ffn_act_fn');
    const plain: DecoderSpec = {
      family: 'dbrx',
      layers,
      hiddenSize,
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 32000),
      contextTokens,
      heads,
      kvHeads: attention.integer('kv_n_heads', LIMITS.heads, 1),
      headDim,
      feedForwardSize: block.integer('ffn_hidden_size', LIMITS.feedForward, 3584),
      norm: { kind: 'layer', epsilon: EPSILON },
      residual: 'pre',
      finalNorm: true,
      embedding: { size: hiddenSize, scale: 1 },
      attention: { scale: headDim ** -0.5, qkNorm: 'none' },
      position: rotary('halves', headDim, table),
      feedForward: { kind: 'gated', activation: activation(name, 'name', 'silu') },
      layerSpecs: sameLayers(layers),
    };
    const count = block.integer('moe_num_experts', LIMITS.experts, 4);
    const decoder = withExperts(withClip(plain, attention, 'clip_qkv'), {
      count,
      perToken: block.integer('moe_top_k', LIMITS.experts, 1),
      width: plain.feedForwardSize,
      router: { score: 'softmax', normalised, scale: 1, choiceBias: false },
    });
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', { token_embedding: 'wte.weight', 'final_norm.weight': 'norm_f.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...weights(LAYER, {
          'norm1.weight': 'norm_attn_norm.norm_1.weight',
          'norm2.weight': 'norm_attn_norm.norm_2.weight',
          'o.weight': 'norm_attn_norm.attn.out_proj.weight',
          'router.weight': 'ffn.router.layer.weight',
        }),
        ...fusedQueryKeyValue(`${LAYER}norm_attn_norm.attn.Wqkv`, decoder, 1, ['weight']),
        ...expertRows(count, decoder.feedForwardSize),
      ],
    };
  },
  gguf: { architecture: 'dbrx', describe: describeGguf },
};

/** The experts of a tensor one below another; of the last product with a row for each input. */
function expertRows(count: number, size: number): WeightSource[] {
  const sizes = Array<number>(count).fill(size);
  return sizes.flatMap((_, index): WeightSource[] => {
    const part = { groups: 1, sizes, index };
    const tensor = (name: string): string => `${LAYER}ffn.experts.mlp.${name}`;
    return [
      { role: `expert.${index}.gate.weight`, tensor: tensor('w1'), part },
      { role: `expert.${index}.up.weight`, tensor: tensor('v1'), part },
      { role: `expert.${index}.down.weight`, tensor: tensor('w2'), part, turnedBlocks: true },
    ];
  });
}

function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const plain = gatedGguf('dbrx', model, 'halves', { norm: 'layer' });
  const count = fields.integer('expert_count', LIMITS.experts);
  const decoder = withExperts(withClip(plain, fields, 'attention.clamp_kqv'), {
    count,
    perToken: fields.integer('expert_used_count', LIMITS.experts),
    width: plain.feedForwardSize,
  });
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'norm2.weight': 'attn_output_norm.weight',
        'o.weight': 'attn_output.weight',
        'router.weight': 'ffn_gate_inp.weight',
      }),
      ...ggufExperts(tensors, count),
    ],
  };
}
