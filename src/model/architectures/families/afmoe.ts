import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { LIMITS } from '../Fields.js';
import { gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, MLP_EXPERTS, mixtureWeights, withExperts } from '../mixture.js';
import { ggufSlidingLayers, slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import { GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

/** Every fourth layer sees all tokens. */
const PATTERN = 4;

/** Norms round both branches and over heads, gates; only layers that slide rotate. */
function gatedSandwich(decoder: DecoderSpec, layers: readonly LayerSpec[], sliding: readonly boolean[]): DecoderSpec {
  const normed = withQueryKeyNorm(decoder);
  return {
    ...normed,
    residual: 'sandwich',
    attention: { ...normed.attention, gate: true },
    layerSpecs: unrotated(layers, (layer) => sliding[layer] === true),
  };
}

/** Trinity (AFMoE): norms round both branches and over heads, gated attention, of which layers that slide rotate. */
export const afmoe = gatedFamily({
  family: 'afmoe',
  defaults: {
    vocabulary: 200192,
    hidden: 2048,
    feedForward: 6144,
    layers: 32,
    heads: 16,
    kvHeads: null,
    headDim: 128,
    context: 16384,
    epsilon: 1e-5,
    theta: 10000,
  },
  decoder(decoder, config) {
    if (config.boolean('attention_bias', false)) config.refuse('attention_bias', 'false');
    const period = config.integerOrNull('global_attn_every_n_layers', LIMITS.layers, PATTERN) ?? 1;
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % period !== 0);
    const layers = windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, 1024));
    const width = config.integer('moe_intermediate_size', LIMITS.feedForward, 1408);
    const none = { min: 0, max: LIMITS.layers.max };
    const dense = config.integerOrNull('num_dense_layers', none, 1) ?? 0;
    const shared = config.integerOrNull('num_shared_experts', { min: 0, max: LIMITS.experts.max }, 2) ?? 0;
    const scale = config.boolean('mup_enabled', false) ? Math.fround(Math.sqrt(decoder.hiddenSize)) : 1;
    return withExperts(
      {
        ...gatedSandwich(decoder, layers, sliding),
        embedding: { ...decoder.embedding, scale },
      },
      {
        count: config.integer('num_experts', LIMITS.experts, 64),
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, 6),
        width,
        router: {
          score: 'sigmoid',
          normalised: true,
          scale: config.number('route_scale', LIMITS.factor, 1),
          choiceBias: true,
        },
        shared: { size: width * shared, gate: false },
        dense: (layer) => layer < dense,
      },
    );
  },
  names: () => ({
    ...HEAD_NORMS,
    'q_gate.weight': 'self_attn.gate_proj.weight',
    'post_norm1.weight': 'post_attention_layernorm.weight',
    'norm2.weight': 'pre_mlp_layernorm.weight',
    'post_norm2.weight': 'post_mlp_layernorm.weight',
  }),
  weights: (decoder) =>
    mixtureWeights(decoder, { ...MLP_EXPERTS, router: 'mlp.router.gate.weight', choiceBias: 'mlp.expert_bias' }),
  gguf: {
    architecture: 'afmoe',
    rotary: 'halves',
    decoder(decoder, model) {
      const { fields } = model;
      const window = fields.integer('attention.sliding_window', LIMITS.window);
      const sliding = ggufSlidingLayers(fields, decoder.layers, window, PATTERN);
      const gated = gatedSandwich(decoder, windowedLayers(fields, sliding, window), sliding);
      // Metadata have no word for it: llama.cpp always multiplies.
      const embedding = { ...decoder.embedding, scale: Math.fround(Math.sqrt(decoder.hiddenSize)) };
      return ggufMixture({ ...gated, embedding }, model, { score: 'sigmoid', normalised: true });
    },
    names: () => ({
      ...GGUF_HEAD_NORMS,
      'q_gate.weight': 'attn_gate.weight',
      'post_norm1.weight': 'post_attention_norm.weight',
      'post_norm2.weight': 'post_ffw_norm.weight',
    }),
    weights: ggufMixtureWeights,
  },
});
