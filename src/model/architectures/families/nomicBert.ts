import { EIGHT_BITS, encoder, encoderSizes, layerNorm, sequenceClassifier, withHead } from '../encoder.js';
import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { ggufEncoder, ggufEncoderGlobals, ggufEncoderLayers } from '../ggufEncoder.js';
import { ggufClassifier } from '../ggufHead.js';
import { ggufRotary } from '../ggufRotary.js';
import { activation, rotary } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { fusedQueryKeyValue, weights } from '../weights.js';

const DEFAULTS = { vocabulary: 30528, hidden: 768, layers: 12, heads: 12, feedForward: 3072 };
/** Names of the model's own code, which its checkpoints keep. */
const OLD_KEYS = { hidden: 'n_embd', layers: 'n_layer', heads: 'n_head', feedForward: 'n_inner' };
const THETA = 1000;

/** NomicBERT: BERT with rotary positions and gated feed-forward blocks, without biases. */
export const nomicBert: Family = {
  modelTypes: ['nomic_bert'],
  fromConfig(config: Fields, tensors?: TensorIndex): Description {
    const own = config.has('n_embd');
    if (own) checkOwn(config);
    const sizes = encoderSizes(config, DEFAULTS, own ? OLD_KEYS : {});
    const headDim = sizes.hiddenSize / sizes.heads;
    const contextTokens = config.integer(own ? 'n_positions' : 'max_position_embeddings', LIMITS.context, 2048);
    const fields = rotaryFields(config);
    const { table } = configuredRotary(fields, {
      dims: headDim,
      contextTokens,
      theta: rotaryTheta(fields, config, own ? 'rotary_emb_base' : 'rope_theta', THETA),
    });
    const head = sequenceClassifier(
      config,
      sizes.hiddenSize,
      [{ kind: 'dense', activation: 'tanh', tensor: '{base}pooler.dense' }],
      'classifier',
    );
    const decoder = encoder({
      family: 'nomic_bert',
      ...sizes,
      contextTokens,
      epsilon: config.number(own ? 'layer_norm_epsilon' : 'layer_norm_eps', LIMITS.epsilon, 1e-12),
      tokenTypes: config.integer('type_vocab_size', { min: 1, max: 1024 }, 2),
      position: rotary('halves', headDim, table),
      feedForward: { kind: 'gated', activation: own ? 'silu' : activation(config, 'hidden_act', 'silu') },
    });
    return withHead(
      {
        decoder,
        bases: ['nomic_bert.', 'bert.', 'model.', ''],
        eightBits: EIGHT_BITS,
        weights: [
          ...weights('{base}embeddings.', {
            token_embedding: 'word_embeddings.weight',
            type_embedding: 'token_type_embeddings.weight',
          }),
          ...(['weight', 'bias'] as const).map((part) => ({
            role: `embedding_norm.${part}` as const,
            tensor: `{base}emb_ln.${part}`,
            otherwise: `{base}embeddings.LayerNorm.${part}`,
          })),
          ...layerWeights(decoder, tensors),
        ],
      },
      head,
    );
  },
  gguf: {
    architecture: 'nomic-bert',
    describe(model): Description {
      const { fields } = model;
      const plain = ggufEncoder('nomic_bert', model, { kind: 'learned', offset: 0 });
      const dims = fields.integer('rope.dimension_count', { min: 2, max: LIMITS.headDim.max }, plain.headDim);
      const { table, contextTokens } = ggufRotary(model, dims, plain.contextTokens);
      return withHead(
        {
          decoder: {
            ...plain,
            contextTokens,
            position: rotary('halves', dims, table),
            feedForward: { kind: 'gated', activation: 'silu' },
          },
          eightBits: EIGHT_BITS,
          weights: [...ggufEncoderGlobals(), ...ggufEncoderLayers(model, true)],
        },
        ggufClassifier(model, plain.hiddenSize),
      );
    },
  },
};

function layerWeights(
  { heads, headDim }: { heads: number; headDim: number },
  tensors: TensorIndex | undefined,
): Description['weights'] {
  const separate = tensors?.names().some((name) => name.endsWith('layers.0.self_attn.q_proj.weight')) ?? false;
  if (separate) {
    const layer = '{base}layers.{layer}.';
    return [
      ...weights(layer, {
        'q.weight': 'self_attn.q_proj.weight',
        'k.weight': 'self_attn.k_proj.weight',
        'v.weight': 'self_attn.v_proj.weight',
        'o.weight': 'self_attn.o_proj.weight',
        'gate.weight': 'mlp.gate_proj.weight',
        'up.weight': 'mlp.up_proj.weight',
        'down.weight': 'mlp.down_proj.weight',
      }),
      ...layerNorm('norm1', `${layer}post_attention_layernorm`),
      ...layerNorm('norm2', `${layer}post_mlp_layernorm`),
    ];
  }
  const layer = '{base}encoder.layers.{layer}.';
  return [
    ...fusedQueryKeyValue(`${layer}attn.Wqkv`, { heads, kvHeads: heads, headDim }, 1, ['weight']),
    ...weights(layer, {
      'o.weight': 'attn.out_proj.weight',
      'gate.weight': 'mlp.fc12.weight',
      'up.weight': 'mlp.fc11.weight',
      'down.weight': 'mlp.fc2.weight',
    }),
    ...layerNorm('norm1', `${layer}norm1`),
    ...layerNorm('norm2', `${layer}norm2`),
  ];
}

/** Refuses what the model's own code can do beside what its checkpoints ask for. */
function checkOwn(config: Fields): void {
  for (const key of [
    'prenorm',
    'parallel_block',
    'use_rms_norm',
    'rotary_emb_interleaved',
    'qkv_proj_bias',
    'mlp_fc1_bias',
    'mlp_fc2_bias',
  ])
    if (config.boolean(key, false)) config.refuse(key, 'false');
  if (config.integer('num_experts', { min: 0, max: 2 ** 16 }, 0) > 0)
    config.refuse('num_experts', 'none: mixtures of experts are not computed as encoders');
  if (config.string('activation_function', 'swiglu') !== 'swiglu') config.refuse('activation_function', 'swiglu');
  if (config.number('rotary_emb_fraction', { min: 0, max: 1 }, 1) !== 1) config.refuse('rotary_emb_fraction', '1');
  if (config.raw('rotary_emb_scale_base') !== undefined && config.raw('rotary_emb_scale_base') !== null)
    config.refuse('rotary_emb_scale_base', 'null');
}
