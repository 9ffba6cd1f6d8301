import type { DecoderSpec, RouterSpec } from '../../DecoderSpec.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedFeedForwardWeights, LLAMA_BASES, LLAMA_LAYER } from '../gatedDecoder.js';
import { latentConfig, latentGguf, latentGgufWeights, latentWeights, type LatentDefaults } from '../latentDecoder.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  listedDenseLayers,
  mixtureWeights,
  sigmoidRouter,
  storedExperts,
  withExperts,
  type GgufMixture,
} from '../mixture.js';
import { skipNextTokenLayers } from '../nextTokenLayers.js';
import { ggufScaledQueries, withScaledQueries } from '../queryScale.js';
import { requireFalse } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';

const V2: LatentDefaults = {
  vocabulary: 102400,
  hidden: 4096,
  feedForward: 11008,
  layers: 32,
  heads: 32,
  context: 2048,
  epsilon: 1e-6,
  theta: 10000,
  rank: 512,
  queryRank: 1536,
  rotated: 64,
  plain: 128,
  value: 128,
};
export const V3: LatentDefaults = {
  ...V2,
  vocabulary: 129280,
  hidden: 7168,
  feedForward: 18432,
  layers: 61,
  heads: 128,
  context: 4096,
};
const SARVAM: LatentDefaults = { ...V3, vocabulary: 262144, hidden: 4096, feedForward: 16384, layers: 32, heads: 64 };
const AXK1: LatentDefaults = { ...V3, vocabulary: 163840, heads: 64, context: 32768 };
const YOUTU: LatentDefaults = {
  ...V2,
  vocabulary: 128256,
  hidden: 2048,
  feedForward: 6144,
  heads: 16,
  context: 131072,
};
const MISTRAL: LatentDefaults = {
  ...V2,
  vocabulary: 131072,
  hidden: 4096,
  feedForward: 12288,
  layers: 36,
  context: 1048576,
  rank: 256,
  queryRank: 1024,
  plain: 64,
};

/** A class's values for its experts where a configuration has none. */
interface DeepExperts {
  readonly width: number;
  readonly count: number;
  readonly perToken: number;
  readonly shared: number;
  /** Layers, the first ones, without experts. */
  readonly dense: number;
}

/** Experts of several layers, and blocks that all tokens go through beside them. */
export function withDeepExperts(
  decoder: DecoderSpec,
  config: Fields,
  router: RouterSpec,
  otherwise: DeepExperts,
  isDense?: (layer: number) => boolean,
): DecoderSpec {
  const width = config.integer('moe_intermediate_size', LIMITS.feedForward, otherwise.width);
  const none = { min: 0, max: LIMITS.layers.max };
  const dense = config.integerOrNull('first_k_dense_replace', none, otherwise.dense) ?? 0;
  const shared = config.integerOrNull('n_shared_experts', { min: 0, max: LIMITS.experts.max }, otherwise.shared) ?? 0;
  return withExperts(decoder, {
    count: config.integer('n_routed_experts', LIMITS.experts, otherwise.count),
    perToken: config.integerOrNull('num_experts_per_tok', LIMITS.experts, otherwise.perToken) ?? otherwise.perToken,
    width,
    router,
    shared: { size: width * shared, gate: false },
    dense: isDense ?? ((layer) => layer < dense),
  });
}

/** DeepSeek V2's router: a softmax as it is, perhaps of the best groups alone, each by its best expert. */
function softmaxRouter(config: Fields): RouterSpec {
  requireFalse(config, 'norm_topk_prob');
  const method = config.string('topk_method', 'greedy');
  if (!['greedy', 'group_limited_greedy'].includes(method))
    config.refuse('topk_method', 'greedy or group_limited_greedy');
  const count = config.integerOrNull('n_group', LIMITS.experts, 1) ?? 1;
  return {
    score: 'softmax',
    normalised: false,
    scale: config.number('routed_scaling_factor', LIMITS.factor, 1),
    choiceBias: false,
    ...(method !== 'greedy' &&
      count > 1 && {
        groups: {
          count,
          perToken: config.integerOrNull('topk_group', LIMITS.experts, 1) ?? 1,
          score: 'best' as const,
        },
      }),
  };
}

/** Latent attention, and a mixture in most layers. */
export function deepFamily(
  modelTypes: readonly string[],
  describe: (config: Fields, tensors: TensorIndex | undefined) => DecoderSpec,
): Pick<Family, 'modelTypes' | 'fromConfig'> {
  return {
    modelTypes,
    fromConfig(config, tensors) {
      const decoder = describe(config, tensors);
      const mixture = decoder.feedForward.kind === 'experts';
      return {
        decoder,
        bases: LLAMA_BASES,
        weights: [
          ...latentWeights(
            decoder,
            config.boolean('tie_word_embeddings', !mixture),
            config.boolean('attention_bias', false),
          ),
          ...(mixture
            ? mixtureWeights(decoder, storedExperts(tensors, decoder.hiddenSize))
            : gatedFeedForwardWeights(config.boolean('mlp_bias', false))),
        ],
      };
    },
  };
}

/** The same in GGUF. @param scale of queries, where the file says none */
export function deepGguf(latent: DecoderSpec, model: GgufModel, otherwise: GgufMixture, scale = 0): Description {
  const decoder = ggufScaledQueries(ggufMixture(skipNextTokenLayers(latent, model), model, otherwise), model, scale);
  return { decoder, weights: [...latentGgufWeights(decoder, model), ...ggufMixtureWeights(decoder, model)] };
}

/** DeepSeek V2 and V2 Lite. Its GGUF architecture is that of V3, Moonlight and GLM-4.7-Flash, too. */
export const deepseekV2: Family = {
  ...deepFamily(['deepseek_v2'], (config) => {
    requireFalse(config, 'mlp_bias');
    const otherwise = { width: 1407, count: 64, perToken: 6, shared: 2, dense: 0 };
    return withDeepExperts(latentConfig('deepseek_v2', config, V2, 'pairs'), config, softmaxRouter(config), otherwise);
  }),
  gguf: {
    architecture: 'deepseek2',
    describe(model) {
      return deepGguf(latentGguf('deepseek2', model, 'pairs'), model, { score: 'softmax', normalised: false });
    },
  },
};

/** DeepSeek V3 and R1, Moonlight and Kimi K2: a logistic router with a bias, groups by their two best. */
export const deepseekV3: Family = deepFamily(['deepseek_v3', 'kimi_k2'], (config) => {
  const otherwise = { width: 2048, count: 256, perToken: 8, shared: 1, dense: 3 };
  const router = sigmoidRouter(config.withDefaults({ n_group: 8, topk_group: 4, routed_scaling_factor: 2.5 }));
  return withDeepExperts(latentConfig('deepseek_v3', config, V3), config, router, otherwise);
});

/** Sarvam 105B: V3 with names of its own for some sizes, and without groups. */
export const sarvamMla: Family = deepFamily(['sarvam_mla'], (given) => {
  const scaling = given.child('rope_scaling');
  const isDeep = [scaling?.raw('type'), scaling?.raw('rope_type')].includes('deepseek_yarn');
  const config = given
    .withDefaults({ n_routed_experts: given.raw('num_experts'), n_shared_experts: given.raw('num_shared_experts') })
    .with({
      q_lora_rank: given.raw('q_lora_rank') ?? null,
      ...(isDeep && {
        rope_scaling: { ...(given.raw('rope_scaling') as object), type: 'yarn', rope_type: 'yarn' },
      }),
    });
  const otherwise = { width: 2048, count: 128, perToken: 8, shared: 1, dense: 1 };
  const router = sigmoidRouter(config.withDefaults({ routed_scaling_factor: 2.5 }));
  return withDeepExperts(latentConfig('sarvam_mla', config, SARVAM), config, router, otherwise);
});

const axk1Layers = deepFamily(['axk1'], (config, tensors) => {
  const otherwise = { width: 2048, count: 192, perToken: 8, shared: 1, dense: 1 };
  const router = {
    ...sigmoidRouter(config.withDefaults({ n_group: 8, topk_group: 4, routed_scaling_factor: 2.5 })),
    choiceBias: tensors?.hasInLayers('mlp.gate.e_score_correction_bias') !== false,
  };
  const decoder = latentConfig('axk1', config, AXK1);
  return withDeepExperts(decoder, config, router, otherwise, listedDenseLayers(config, decoder.layers));
});

/** A.X K1: V3 with a norm after experts; published with or without the bias of their choice. */
export const axk1: Family = {
  ...axk1Layers,
  fromConfig(config, tensors) {
    const described = axk1Layers.fromConfig(config, tensors);
    const { layerSpecs } = described.decoder;
    return {
      ...described,
      weights: [
        ...described.weights,
        {
          role: 'post_norm2.weight',
          tensor: `${LLAMA_LAYER}post_mlp_layernorm.weight`,
          layers: (layer) => layerSpecs[layer]?.dense !== true,
        },
      ],
    };
  },
};

/** Youtu-LLM: latent attention in a dense model. */
export const youtu: Family = deepFamily(['youtu'], (config) => latentConfig('youtu', config, YOUTU));

/** Factor of the scale of Mistral 4's queries, which converters leave out. */
const MISTRAL_SCALE = 0.1;

/** Mistral 4, the language model: queries scaled by their position. */
export const mistral4: Family = {
  ...deepFamily(['mistral4'], (config) => {
    const otherwise = { width: 2048, count: 128, perToken: 4, shared: 1, dense: 0 };
    const router = sigmoidRouter(config);
    const decoder = withScaledQueries(latentConfig('mistral4', config, MISTRAL), config);
    return withDeepExperts(decoder, config, { ...router, score: 'softmax', choiceBias: false }, otherwise);
  }),
  gguf: {
    architecture: 'mistral4',
    describe(model) {
      return deepGguf(
        latentGguf('mistral4', model, 'pairs'),
        model,
        { score: 'softmax', normalised: false },
        MISTRAL_SCALE,
      );
    },
  },
};
