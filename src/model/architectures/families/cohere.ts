import type { DecoderSpec, RouterSpec } from '../../DecoderSpec.js';
import type { GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { listedDenseLayers, mixtureWeights, withExperts } from '../mixture.js';
import { ggufSlidingLayers, slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';
import { GGUF_LAYER, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 256000,
  hidden: 8192,
  feedForward: 22528,
  layers: 40,
  heads: 64,
  kvHeads: null,
  headDim: null,
  context: 8192,
  epsilon: 1e-5,
  theta: 500000,
};
const STYLE = { norm: { kind: 'layer', epsilon: 'layer_norm_eps' }, rotary: { style: 'pairs' } } as const;
const LOGIT_SCALE = 0.0625;
/** Every fourth layer of Cohere 2 sees all tokens, and does not rotate. */
const PATTERN = 4;
const QUERY_KEY_NORMS = ['q', 'k'] as const;

const parallel = (decoder: DecoderSpec, logitScale: number): DecoderSpec => ({
  ...decoder,
  residual: 'parallel',
  logitScale,
});
const fromConfig = (decoder: DecoderSpec, config: Fields): DecoderSpec =>
  parallel(decoder, config.number('logit_scale', LIMITS.factor, LOGIT_SCALE));
const fromGguf = (decoder: DecoderSpec, { fields }: GgufModel): DecoderSpec =>
  parallel(decoder, fields.number('logit_scale', LIMITS.factor));
const normed = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  attention: { ...decoder.attention, qkNorm: 'layer' },
});
const attentionBiases = (config: Fields): boolean => config.boolean('attention_bias', false);

/** Cohere's Command R: branches side by side after one norm, pairs that are neighbours, a factor on logits. */
export const cohere = gatedFamily({
  family: 'cohere',
  defaults: DEFAULTS,
  style: STYLE,
  tied: true,
  decoder(decoder, config) {
    const branches = fromConfig(decoder, config);
    return config.boolean('use_qk_norm', false) ? normed(branches) : branches;
  },
  names: (config) => ({ 'norm2.weight': undefined, ...biases(attentionBiases(config), 'q', 'k', 'v', 'o') }),
  weights: ({ attention }) =>
    attention.qkNorm === 'none'
      ? []
      : QUERY_KEY_NORMS.flatMap((role) =>
          weights(LLAMA_LAYER, { [`${role}_norm.weight`]: `self_attn.${role}_norm.weight` }, { reshaped: true }),
        ),
  gguf: {
    architecture: 'command-r',
    rotary: 'pairs',
    norm: 'layer',
    decoder: (decoder, model) =>
      model.tensors.has('blk.0.attn_q_norm.weight') ? normed(fromGguf(decoder, model)) : fromGguf(decoder, model),
    names: () => ({ 'norm2.weight': undefined }),
    weights: ({ attention }) =>
      attention.qkNorm === 'none'
        ? []
        : QUERY_KEY_NORMS.flatMap((role) =>
            weights(GGUF_LAYER, { [`${role}_norm.weight`]: `attn_${role}_norm.weight` }, { reshaped: true }),
          ),
  },
});

/** Mixtures of Cohere 2's layers: the first ones dense, the block beside the experts averaged with them. */
export const cohere2Moe = gatedFamily({
  family: 'cohere2_moe',
  defaults: { ...DEFAULTS, headDim: 128, theta: 10000 },
  style: STYLE,
  tied: true,
  decoder(decoder, config) {
    const none = { min: 0, max: LIMITS.layers.max };
    const leading = config.integer('first_k_dense_replace', none, 0);
    const isDense = listedDenseLayers(config, decoder.layers) ?? ((layer: number) => layer < leading);
    const period = (key: string, otherwise: number): number => config.integer(key, LIMITS.layers, otherwise);
    const [first, others] = [
      period('prefix_dense_sliding_window_pattern', 1),
      period('sliding_window_pattern', PATTERN),
    ];
    const sliding = slidingLayers(config, decoder.layers, (layer) =>
      layer < leading ? (layer + 1) % first !== 0 : (layer - leading + 1) % others !== 0,
    );
    const layers = windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, 4096));
    const rms = config.numberOrNull('rms_norm_eps', LIMITS.epsilon);
    const shared = config.integer('num_shared_experts', none, 0) * decoder.feedForwardSize;
    const averaged = shared > 0 && isAveraged(config);
    const mixed: DecoderSpec = {
      ...fromConfig(decoder, config),
      ...(rms !== null && { norm: { kind: 'rms', epsilon: rms } }),
      feedForwardSize:
        config.integerOrNull('prefix_dense_intermediate_size', LIMITS.feedForward, null) ?? decoder.feedForwardSize,
      layerSpecs: unrotated(layers, (layer) => sliding[layer] === true || (first === 1 && isDense(layer))),
    };
    return withExperts(mixed, {
      count: config.integer('num_experts', LIMITS.experts, 8),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
      width: decoder.feedForwardSize,
      router: mixtureRouter(config, averaged ? 0.5 : 1),
      shared: { size: shared, gate: false, ...(averaged && { scale: 0.5 }) },
      dense: isDense,
    });
  },
  names: (config) => ({ 'norm2.weight': undefined, ...biases(attentionBiases(config), 'q', 'k', 'v', 'o') }),
  weights: (decoder) => mixtureWeights(decoder),
});

function isAveraged(config: Fields): boolean {
  const strategy = config.string('shared_expert_combination_strategy', 'average');
  return (
    strategy === 'average' ||
    (strategy === 'sum' ? false : config.refuse('shared_expert_combination_strategy', 'average or sum'))
  );
}

/** Scores of the chosen experts: their softmax, or the logistic function of each. */
function mixtureRouter(config: Fields, scale: number): RouterSpec {
  const score = config.string('expert_selection_fn', 'softmax');
  if (score !== 'softmax' && score !== 'sigmoid') return config.refuse('expert_selection_fn', 'softmax or sigmoid');
  const normalised = score === 'softmax' || config.boolean('norm_topk_prob', true);
  return { score, normalised, scale, choiceBias: false };
}

/** Command R7B and A: layers that slide rotate, those that see all tokens do not. */
export const cohere2 = gatedFamily({
  family: 'cohere2',
  defaults: { ...DEFAULTS, headDim: 128, theta: 10000 },
  style: STYLE,
  tied: true,
  decoder(decoder, config) {
    const pattern = config.integer('sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, PATTERN);
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % pattern !== 0);
    const layers = windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, 4096));
    return { ...fromConfig(decoder, config), layerSpecs: unrotated(layers, (layer) => sliding[layer] === true) };
  },
  names: (config) => ({ 'norm2.weight': undefined, ...biases(attentionBiases(config), 'q', 'k', 'v', 'o') }),
  gguf: {
    architecture: 'cohere2',
    rotary: 'pairs',
    norm: 'layer',
    decoder(decoder, model) {
      const { fields } = model;
      const window = fields.integer('attention.sliding_window', LIMITS.window);
      const sliding = ggufSlidingLayers(fields, decoder.layers, window, PATTERN);
      const layers = windowedLayers(fields, sliding, window);
      return { ...fromGguf(decoder, model), layerSpecs: unrotated(layers, (layer) => sliding[layer] === true) };
    },
    names: () => ({ 'norm2.weight': undefined }),
  },
});
