import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { plainDecoder, type PlainSizes } from '../plainDecoder.js';
import { dividedHeadDim } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, ggufGlobals, head, weights } from '../weights.js';
import { withClip } from './olmo.js';

const LAYER = '{base}blocks.{layer}.';
const BIAS = { min: 1e-3, max: 1e3 };

/** Slopes of its ALiBi: a geometric series for the next power of two, of which every other one comes first. */
function slopesOf(heads: number, largest: number): Float32Array {
  const power = 2 ** Math.ceil(Math.log2(heads));
  const all = Array.from({ length: power }, (_, head) => 2 ** -((head + 1) * (largest / power)));
  const odd = (first: 0 | 1): number[] => all.filter((_, head) => head % 2 === first);
  return Float32Array.from(power === heads ? all : [...odd(1), ...odd(0)].slice(0, heads));
}

function mptDecoder(
  sizes: Omit<PlainSizes, 'family' | 'position' | 'parallel' | 'activation'>,
  largest: number,
): DecoderSpec {
  const position = { kind: 'alibi', slopes: slopesOf(sizes.heads, largest), roundToBfloat16: false } as const;
  return plainDecoder({ ...sizes, family: 'mpt', parallel: false, activation: 'gelu', position });
}

/** MPT: ALiBi, layer norms without biases, queries, keys and values that may be clipped. */
export const mpt: Family = {
  modelTypes: ['mpt'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('d_model', LIMITS.hidden, 2048);
    const heads = config.integer('n_heads', LIMITS.heads, 16);
    const attention = config.child('attn_config') ?? Fields.ofObject(config.file, {}, 'attn_config');
    if (!attention.boolean('alibi', true)) attention.refuse('alibi', 'true');
    for (const key of ['qk_ln', 'prefix_lm']) if (attention.boolean(key, false)) attention.refuse(key, 'false');
    if (!config.boolean('no_bias', true)) config.refuse('no_bias', 'true');
    if ((config.raw('logit_scale') ?? null) !== null) config.refuse('logit_scale', 'null');
    if (config.string('norm_type', 'low_precision_layernorm').includes('rms'))
      config.refuse('norm_type', 'layer norms');
    const plain = mptDecoder(
      {
        hiddenSize,
        heads,
        kvHeads: heads,
        headDim: dividedHeadDim(config, hiddenSize, heads, 'n_heads'),
        layers: config.integer('n_layers', LIMITS.layers, 24),
        vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50368),
        contextTokens: config.integer('max_seq_len', LIMITS.context, 2048),
        // transformers reads no other ratio.
        feedForwardSize: 4 * hiddenSize,
        epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
      },
      attention.number('alibi_bias_max', BIAS, 8),
    );
    const scale = attention.numberOrNull('softmax_scale', { min: 1e-6, max: 1e6 }) ?? plain.attention.scale;
    const decoder = withClip({ ...plain, attention: { ...plain.attention, scale } }, attention, 'clip_qkv');
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', { token_embedding: 'wte.weight', 'final_norm.weight': 'norm_f.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...fusedQueryKeyValue(`${LAYER}attn.Wqkv`, decoder, 1, ['weight']),
        ...weights(LAYER, {
          'norm1.weight': 'norm_1.weight',
          'norm2.weight': 'norm_2.weight',
          'o.weight': 'attn.out_proj.weight',
          'up.weight': 'ffn.up_proj.weight',
          'down.weight': 'ffn.down_proj.weight',
        }),
      ],
    };
  },
  gguf: {
    architecture: 'mpt',
    describe(model: GgufModel): Description {
      const { fields } = model;
      const sizes = readGgufSizes(model);
      const epsilon = fields.number('attention.layer_norm_epsilon', LIMITS.epsilon);
      const plain = mptDecoder({ ...sizes, epsilon }, fields.number('attention.max_alibi_bias', BIAS, 8));
      const decoder = withClip(plain, fields, 'attention.clamp_kqv');
      return {
        decoder,
        weights: [
          ...ggufGlobals(),
          ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
          ...weights(GGUF_LAYER, {
            'norm1.weight': 'attn_norm.weight',
            'norm2.weight': 'ffn_norm.weight',
            'o.weight': 'attn_output.weight',
            'up.weight': 'ffn_up.weight',
            'down.weight': 'ffn_down.weight',
          }),
        ],
      };
    },
  },
};
