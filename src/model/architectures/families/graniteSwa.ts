import type { DecoderSpec } from '../../DecoderSpec.js';
import type { WeightSource } from '../Family.js';
import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import { LIMITS, type Fields } from '../Fields.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { rotary } from '../specs.js';
import { withMultipliers } from './granite.js';
import { LLAMA_DEFAULTS } from './llama.js';
import { graniteBlocks, withGraniteExperts } from './graniteMoe.js';

const DEFAULT_THETA = 10000;
/** Every fourth layer sees all tokens. */
const PATTERN = 4;

/** Granite whose layers mostly see a window, with a sink for each head, and each rotates by a base of its own. */
export const graniteSwa = gatedFamily({
  family: 'granite_swa',
  defaults: {
    vocabulary: 100352,
    hidden: 2560,
    feedForward: 8192,
    layers: 24,
    heads: 20,
    kvHeads: 4,
    headDim: null,
    context: 8192,
    epsilon: 1e-5,
    theta: DEFAULT_THETA,
  },
  tied: true,
  decoder: (decoder, config) => windowed(withMultipliers(decoder, config), config),
  names: (config) => ({
    sinks: 'self_attn.sinks',
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
  }),
});

/** Its mixtures. */
export const graniteMoeSwa = gatedFamily({
  family: 'granitemoe_swa',
  defaults: LLAMA_DEFAULTS,
  decoder: (decoder, config) => windowed(withGraniteExperts(decoder, config, 0), config),
  names: (config) => ({
    sinks: 'self_attn.sinks',
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  }),
  weights: (decoder) => graniteBlocks(decoder).map(otherwiseNamed),
});

/** transformers 5 writes its own names of experts and router. */
function otherwiseNamed(source: WeightSource): WeightSource {
  const { tensor } = source;
  if (!tensor.includes('block_sparse_moe.')) return source;
  const otherwise = tensor
    .replace('router.layer.weight', 'router.weight')
    .replace('input_linear.weight', 'experts.gate_up_proj')
    .replace('output_linear.weight', 'experts.down_proj');
  return { ...source, otherwise };
}

function windowed(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const sliding = slidingLayers(config, decoder.layers, (layer) => layer % PATTERN !== 0);
  const window = config.integerOrNull('sliding_window', LIMITS.window, 128);
  const layers = windowedLayers(config, sliding, window).map((layer, at) => ({ ...decoder.layerSpecs[at], ...layer }));
  return rotated({ ...decoder, attention: { ...decoder.attention, sinks: true }, layerSpecs: layers }, config);
}

/** `layer_rope_theta` has a base for each layer, 0 for one that does not rotate. */
function rotated(decoder: DecoderSpec, config: Fields): DecoderSpec {
  if ((config.raw('layer_rope_theta') ?? null) === null) return decoder;
  const { layers, headDim: dims, contextTokens } = decoder;
  const bases = config.numbers('layer_rope_theta', layers, { min: 0, max: LIMITS.theta.max });
  const settings = rotaryFields(config);
  const each = [...new Set(bases.filter((base) => base !== 0))];
  if (each.length === 0) each.push(rotaryTheta(settings, config, 'rope_theta', DEFAULT_THETA));
  const tables = each.map((theta) => configuredRotary(settings, { dims, theta, contextTokens }).table);
  return {
    ...decoder,
    position: rotary('halves', dims, ...tables),
    layerSpecs: decoder.layerSpecs.map((layer, at) => ({
      ...layer,
      rotaryTable: bases[at] === 0 ? ('none' as const) : each.indexOf(bases[at] ?? 0),
    })),
  };
}
