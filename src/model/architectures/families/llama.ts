import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedFeedForwardWeights,
  gatedGguf,
  LLAMA_BASES,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { sameLayers } from '../specs.js';
import { GGUF_LAYER, ggufAttention, ggufExperts, ggufGated, ggufGlobals, weights } from '../weights.js';

export const LLAMA_DEFAULTS: GatedDefaults = {
  vocabulary: 32000,
  hidden: 4096,
  feedForward: 11008,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 2048,
  epsilon: 1e-6,
  theta: 10000,
};

/** LLaMA, and whatever uses its configuration: SmolLM2, TinyLlama, DeepSeek-R1-Distill-Llama. */
export const llama: Family = {
  modelTypes: ['llama'],
  fromConfig(config: Fields): Description {
    const biases = config.boolean('attention_bias', false) ? (['q', 'k', 'v', 'o'] as const) : [];
    return {
      decoder: gatedConfig('llama', config, LLAMA_DEFAULTS),
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false), biases),
        ...gatedFeedForwardWeights(config.boolean('mlp_bias', false)),
      ],
    };
  },
  gguf: { architecture: 'llama', describe: describeGguf },
};

/**
 * GGUF's `llama` is also Mistral and Mixtral. Its q and k rows are permuted so that the pairs that rotate together are
 * neighbours. A sliding window is no part of llama.cpp's format here, but means only one thing where a file states it.
 */
function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const decoder = gatedGguf('llama', model, 'pairs');
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  const count = fields.integer('expert_count', { min: 0, max: LIMITS.experts.max }, 0);
  const shared = [
    ...ggufGlobals(),
    ...ggufAttention(),
    ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'ffn_norm.weight' }),
  ];
  const spec: DecoderSpec = { ...decoder, layerSpecs: sameLayers(decoder.layers, window) };
  if (count === 0) return { decoder: spec, weights: [...shared, ...ggufGated()] };
  return {
    decoder: {
      ...spec,
      family: 'mixtral',
      feedForwardSize: fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward, spec.feedForwardSize),
      feedForward: {
        kind: 'experts',
        activation: 'silu',
        experts: { count, perToken: fields.integer('expert_used_count', LIMITS.experts) },
      },
    },
    weights: [
      ...shared,
      ...weights(GGUF_LAYER, { 'router.weight': 'ffn_gate_inp.weight' }),
      ...ggufExperts(tensors, count),
    ],
  };
}
