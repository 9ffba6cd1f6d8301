import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { mixtureWeights, SOFTMAX_AS_IT_IS, withExperts } from '../mixture.js';
import { rotaryTables } from '../rotaryTables.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { rotary, withQueryKeyNorm } from '../specs.js';
import { HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 98304,
  hidden: 2304,
  feedForward: 7168,
  layers: 28,
  heads: 32,
  kvHeads: 4,
  headDim: 128,
  context: 131072,
  epsilon: 1e-6,
  theta: 500000,
};
/** Mellum 2: Qwen3's mixture with windows, and a rotary base for each kind of layer. */
export const mellum = gatedFamily({
  family: 'mellum',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    const sliding = slidingLayers(config, decoder.layers, () => false);
    const window = config.integerOrNull('sliding_window', LIMITS.window, 1024);
    const { tables, contextTokens } = rotaryTables(
      config,
      decoder.headDim,
      decoder.contextTokens,
      DEFAULTS.theta,
      10000,
    );
    const kinds = config.raw('mlp_layer_types') ?? null;
    if (kinds !== null && (!Array.isArray(kinds) || kinds.length !== decoder.layers))
      config.refuse('mlp_layer_types', `an array of ${decoder.layers}, one entry a layer`);
    const layered = {
      ...withQueryKeyNorm(decoder),
      contextTokens,
      position: rotary('halves', decoder.headDim, ...tables),
      layerSpecs: windowedLayers(config, sliding, window, 1),
    };
    return withExperts(layered, {
      count: config.integer(config.has('num_local_experts') ? 'num_local_experts' : 'num_experts', LIMITS.experts, 64),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width: config.integer('moe_intermediate_size', LIMITS.feedForward, 896),
      router: { ...SOFTMAX_AS_IT_IS, normalised: config.boolean('norm_topk_prob', true) },
      dense: (layer) => kinds !== null && (kinds as readonly unknown[])[layer] === 'dense',
    });
  },
  names: (config) => ({ ...HEAD_NORMS, ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o') }),
  weights: (decoder) => mixtureWeights(decoder),
});
