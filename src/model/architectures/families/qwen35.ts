import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Description, Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedFeedForwardWeights, LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { gatedDeltaConfig, gatedDeltaGguf, gatedDeltaGgufWeights, gatedDeltaWeights } from '../gatedDelta.js';
import {
  denseQwenLayers,
  ggufMixture,
  ggufMixtureWeights,
  MLP_EXPERTS,
  mixtureWeights,
  SOFTMAX_AS_IT_IS,
  withExperts,
  type MixtureNames,
} from '../mixture.js';
import type { TensorIndex } from '../TensorIndex.js';
import { fusedExperts, ggufGated } from '../weights.js';

const DENSE: GatedDefaults = {
  vocabulary: 248320,
  hidden: 4096,
  feedForward: 12288,
  layers: 32,
  heads: 16,
  kvHeads: 4,
  headDim: 256,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};
/** The defaults of the mixtures; the inner width of layers without experts is Qwen3-Next's. */
const MIXED: GatedDefaults = { ...DENSE, hidden: 2048, feedForward: 5632, layers: 40, kvHeads: 2 };
const NEXT: GatedDefaults = { ...MIXED, vocabulary: 151936, layers: 48 };

/** The text model by itself, and with one that sees. */
const BASES = ['model.language_model.', 'model.', 'language_model.model.', ''];
const NAMES: MixtureNames = {
  ...MLP_EXPERTS,
  shared: (role) => `mlp.shared_expert.${role}_proj.weight`,
  sharedGate: 'mlp.shared_expert_gate.weight',
};

/** Qwen 3.5 and 3.6, dense, the language model. */
export const qwen35: Family = {
  modelTypes: ['qwen3_5_text', 'qwen3_5'],
  fromConfig(outer) {
    const config = outer.child('text_config') ?? outer;
    const decoder = gatedDeltaConfig('qwen3_5', config, DENSE);
    return {
      decoder,
      bases: BASES,
      weights: [...gatedDeltaWeights(decoder, tied(outer, config), false), ...gatedFeedForwardWeights()],
    };
  },
  gguf: {
    architecture: 'qwen35',
    describe(model) {
      const decoder = gatedDeltaGguf('qwen3_5', model, true);
      return { decoder, weights: [...gatedDeltaGgufWeights(decoder, model), ...ggufGated()] };
    },
  },
};

/** Qwen 3.5 and 3.6 with experts, and beside them a block that a gate weighs. */
export const qwen35Moe = mixedFamily({
  family: 'qwen3_5_moe',
  modelTypes: ['qwen3_5_moe_text', 'qwen3_5_moe'],
  architecture: 'qwen35moe',
  defaults: MIXED,
  count: 256,
  perToken: 8,
  tiled: true,
});

/** Qwen3-Next: the same, its projections fused by key head. */
export const qwen3Next = mixedFamily({
  family: 'qwen3_next',
  modelTypes: ['qwen3_next'],
  architecture: 'qwen3next',
  defaults: NEXT,
  count: 512,
  perToken: 10,
  tiled: false,
});

interface MixedFacts {
  readonly family: string;
  readonly modelTypes: readonly string[];
  readonly architecture: string;
  readonly defaults: GatedDefaults;
  readonly count: number;
  readonly perToken: number;
  /** Value heads are in llama.cpp's order in GGUF; of others projections are fused in safetensors. */
  readonly tiled: boolean;
}

function mixedFamily(facts: MixedFacts): Family {
  const { family, modelTypes, architecture, defaults, tiled } = facts;
  return {
    modelTypes,
    fromConfig(outer, tensors): Description {
      const config = outer.child('text_config') ?? outer;
      const decoder = mixed(gatedDeltaConfig(family, config, defaults), config, facts);
      return {
        decoder,
        bases: BASES,
        weights: [
          ...gatedDeltaWeights(decoder, tied(outer, config), !tiled),
          ...(isStacked(tensors) ? stackedMixture(decoder) : mixtureWeights(decoder, NAMES)),
        ],
      };
    },
    gguf: {
      architecture,
      describe(model) {
        const plain = gatedDeltaGguf(family, model, tiled);
        const decoder = ggufMixture(plain, model, { score: 'softmax', normalised: true, sharedGate: true });
        return { decoder, weights: [...gatedDeltaGgufWeights(decoder, model), ...ggufMixtureWeights(decoder, model)] };
      },
    },
  };
}

function mixed(decoder: DecoderSpec, config: Fields, { count, perToken, tiled }: MixedFacts): DecoderSpec {
  return withExperts(decoder, {
    count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, count),
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, perToken),
    width: config.integer('moe_intermediate_size', LIMITS.feedForward, 512),
    // Qwen 3.5 divides by the sum whatever its configuration says.
    ...(!tiled && !config.boolean('norm_topk_prob', true) && { router: SOFTMAX_AS_IT_IS }),
    shared: { size: config.integer('shared_expert_intermediate_size', LIMITS.feedForward, 512), gate: true },
    dense: denseQwenLayers(config, decoder.layers),
  });
}

const tied = (outer: Fields, config: Fields): boolean =>
  outer.boolean('tie_word_embeddings', config.boolean('tie_word_embeddings', false));

/** Experts are stacked in two tensors a layer in the checkpoints that are published, each has its own in others. */
function isStacked(tensors: TensorIndex | undefined): boolean {
  return tensors?.names().some((name) => name.endsWith('.mlp.experts.gate_up_proj')) === true;
}

function stackedMixture(decoder: DecoderSpec): WeightSource[] {
  const others = mixtureWeights(decoder, NAMES).filter(({ role }) => !role.startsWith('expert.'));
  const layers = (layer: number): boolean => decoder.layerSpecs[layer]?.dense !== true;
  return [
    ...others,
    ...fusedExperts(decoder, `${LLAMA_LAYER}mlp.experts.gate_up_proj`, `${LLAMA_LAYER}mlp.experts.down_proj`).map(
      (source) => ({ ...source, layers }),
    ),
  ];
}
