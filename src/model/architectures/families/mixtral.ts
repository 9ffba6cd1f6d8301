import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedAttentionWeights, gatedConfig, LLAMA_BASES, LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { sameLayers } from '../specs.js';
import { experts, weights } from '../weights.js';

export const MIXTRAL_DEFAULTS: GatedDefaults = {
  vocabulary: 32000,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 131072,
  epsilon: 1e-5,
  theta: 1e6,
};
const EXPERT_NAMES = { gate: 'w1', up: 'w3', down: 'w2' } as const;

/** Mixtral: Mistral with a mixture of experts. In GGUF it is a `llama` with an `expert_count`. */
export const mixtral: Family = {
  modelTypes: ['mixtral'],
  fromConfig(config: Fields): Description {
    const decoder = gatedConfig('mixtral', config, MIXTRAL_DEFAULTS);
    const count = config.integer('num_local_experts', LIMITS.experts, 8);
    const perToken = config.integer('num_experts_per_tok', LIMITS.experts, 2);
    const window = config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0;
    return {
      decoder: {
        ...decoder,
        feedForward: { kind: 'experts', activation: decoder.feedForward.activation, experts: { count, perToken } },
        layerSpecs: sameLayers(decoder.layers, window),
      },
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false)),
        ...weights(LLAMA_LAYER, { 'router.weight': 'block_sparse_moe.gate.weight' }),
        ...experts(
          count,
          (role, expert) => `${LLAMA_LAYER}block_sparse_moe.experts.${expert}.${EXPERT_NAMES[role]}.weight`,
        ),
      ],
    };
  },
};
