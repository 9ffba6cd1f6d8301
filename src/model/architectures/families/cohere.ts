import type { DecoderSpec } from '../../DecoderSpec.js';
import type { GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
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
