import type { DecoderSpec } from '../../DecoderSpec.js';
import type { WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, withExperts } from '../mixture.js';
import { fusedExperts, fusedGateUp, weights } from '../weights.js';
import { withGgufMultipliers, withMultipliers } from './granite.js';
import { LLAMA_DEFAULTS } from './llama.js';

const MOE = `${LLAMA_LAYER}block_sparse_moe.`;
const SHARED = `${LLAMA_LAYER}shared_mlp.`;

/** Granite with experts, perhaps beside a block that all tokens go through. */
export const graniteMoe = gatedFamily({
  family: 'granitemoe',
  modelTypes: ['granitemoe', 'granitemoeshared'],
  defaults: LLAMA_DEFAULTS,
  decoder: (decoder, config) => withGraniteExperts(decoder, config, 0),
  names: (config) => biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  weights: graniteBlocks,
  gguf: {
    architecture: 'granitemoe',
    rotary: 'pairs',
    decoder: (decoder, model) =>
      ggufMixture(withGgufMultipliers(decoder, model), model, { score: 'softmax', normalised: true }),
    weights: ggufMixtureWeights,
  },
});

/** The factors, and the experts. @param shared width of the block beside these where nothing is said */
export function withGraniteExperts(decoder: DecoderSpec, config: Fields, shared: number): DecoderSpec {
  const scaled = withMultipliers(decoder, config);
  const size = config.integer('shared_intermediate_size', { min: 0, max: LIMITS.feedForward.max }, shared);
  const count = config.integer('num_local_experts', { min: 0, max: LIMITS.experts.max }, 8);
  if (count === 0) return { ...scaled, feedForwardSize: size };
  return withExperts(scaled, {
    count,
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
    width: decoder.feedForwardSize,
    shared: { size, gate: false },
  });
}

/** A layer's experts are stacked in two tensors, rows of gate before those of up; without them there is one block. */
export function graniteBlocks(decoder: DecoderSpec): WeightSource[] {
  const { feedForward, feedForwardSize } = decoder;
  const { experts } = feedForward;
  if (experts === undefined)
    return [
      ...fusedGateUp(`${SHARED}input_linear.weight`, feedForwardSize),
      ...weights(SHARED, { 'down.weight': 'output_linear.weight' }),
    ];
  const { shared } = experts;
  return [
    ...weights(MOE, { 'router.weight': 'router.layer.weight' }),
    ...fusedExperts(decoder, `${MOE}input_linear.weight`, `${MOE}output_linear.weight`),
    ...(shared === undefined
      ? []
      : [
          ...fusedGateUp(`${SHARED}input_linear.weight`, shared.size),
          ...weights(SHARED, { 'down.weight': 'output_linear.weight' }),
        ]),
  ];
}
