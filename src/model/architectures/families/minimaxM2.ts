import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, type MixtureNames, withExperts } from '../mixture.js';
import { GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';
import { partialRotary } from '../configRotary.js';
import { rotary } from '../specs.js';

export const MINIMAX_DEFAULTS: GatedDefaults = {
  vocabulary: 200064,
  hidden: 3072,
  feedForward: 1536,
  layers: 62,
  heads: 48,
  kvHeads: 8,
  headDim: 128,
  context: 196608,
  epsilon: 1e-6,
  theta: 5000000,
};
const MOE = 'block_sparse_moe.';
const EXPERT_NAMES = { gate: 'w1', up: 'w3', down: 'w2' } as const;
/** Names of its experts' tensors. */
export const M2_EXPERTS: MixtureNames = {
  router: `${MOE}gate.weight`,
  choiceBias: `${MOE}e_score_correction_bias`,
  expert: (role, expert) => `${MOE}experts.${expert}.${EXPERT_NAMES[role]}.weight`,
};

const normed = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  attention: { ...decoder.attention, qkNorm: 'row' },
});

/** MiniMax-M2: norms over all heads, partial rotation, experts by a logistic router with a bias. */
export const minimaxM2 = gatedFamily({
  family: 'minimax_m2',
  defaults: MINIMAX_DEFAULTS,
  style: { rotary: { style: 'halves', share: 1 } },
  decoder: (decoder, config) =>
    withExperts(normed(withRotatedDims(decoder, config, MINIMAX_DEFAULTS.theta)), {
      count: config.integer('num_local_experts', LIMITS.experts, 256),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width: decoder.feedForwardSize,
      router: { score: 'sigmoid', normalised: true, scale: 1, choiceBias: true },
    }),
  names: () => HEAD_NORMS,
  weights: (decoder) => mixtureWeights(decoder, M2_EXPERTS),
  gguf: {
    architecture: 'minimax-m2',
    rotary: 'halves',
    decoder: (decoder, model) => ggufMixture(normed(decoder), model, { score: 'sigmoid', normalised: true }),
    names: () => GGUF_HEAD_NORMS,
    weights: ggufMixtureWeights,
  },
});

/** Published models say how many elements rotate by a field of their own. */
export function withRotatedDims(decoder: DecoderSpec, config: Fields, theta: number): DecoderSpec {
  const dims = config.integerOrNull('rotary_dim', { min: 2, max: decoder.headDim }, null);
  if (dims === null) return decoder;
  const { table, dims: even } = partialRotary(config, decoder, theta, dims / decoder.headDim);
  return { ...decoder, position: rotary('halves', even, table) };
}
