import type { DecoderSpec, RouterSpec } from '../../DecoderSpec.js';
import { rotaryFields } from '../configRotary.js';
import type { Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily, type Renamed } from '../gatedFamily.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  MLP_EXPERTS,
  mixtureWeights,
  sigmoidRouter,
  SOFTMAX_AS_IT_IS,
  withExperts,
} from '../mixture.js';
import { skipNextTokenLayers } from '../nextTokenLayers.js';
import { requireFalse, withQueryKeyNorm } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { fusedQueryKeyValue, GGUF_LAYER } from '../weights.js';
import { GGUF_HEAD_NORMS } from './olmo2.js';

/** Ling 1 and 2, Ring and Sarvam: one tensor of queries, keys and values, blocks beside experts. */

const SARVAM: GatedDefaults = {
  vocabulary: 262144,
  hidden: 4096,
  feedForward: 8192,
  layers: 19,
  heads: 64,
  kvHeads: 4,
  headDim: 64,
  context: 131072,
  epsilon: 1e-6,
  theta: 8000000,
};
const LING: GatedDefaults = {
  ...SARVAM,
  vocabulary: 30592,
  hidden: 1024,
  layers: 24,
  heads: 16,
  headDim: null,
  context: 16384,
  epsilon: 1e-5,
  theta: 10000,
};
const NOT_APART: Renamed = { 'q.weight': undefined, 'k.weight': undefined, 'v.weight': undefined };

/** Values of a class where a configuration has none. */
interface Otherwise {
  readonly width: number;
  readonly count: number;
  readonly perToken: number;
  readonly shared: number;
  readonly dense: number;
}

/** @param router where the configuration's is no logistic one */
function mixture(
  decoder: DecoderSpec,
  config: Fields,
  otherwise: Otherwise,
  router: RouterSpec,
  normed: boolean,
): DecoderSpec {
  const first = (...names: readonly string[]): string => names.find((name) => config.has(name)) ?? names[0] ?? '';
  const none = { min: 0, max: LIMITS.layers.max };
  const width = config.integer('moe_intermediate_size', LIMITS.feedForward, otherwise.width);
  const dense = config.integer('first_k_dense_replace', none, otherwise.dense);
  const shared = config.integerOrNull(first('n_shared_experts', 'num_shared_experts'), none, otherwise.shared) ?? 0;
  requireFalse(config, 'attention_bias', 'use_qkv_bias', 'use_bias', 'norm_head');
  const { position } = decoder;
  const rotated = config.integerOrNull('rotary_dim', LIMITS.headDim, null);
  if (rotated !== null && position.kind === 'rotary' && rotated !== position.dims)
    config.refuse('rotary_dim', `the ${position.dims} elements that partial_rotary_factor leaves of a head`);
  return withExperts(config.boolean('use_qk_norm', normed) ? withQueryKeyNorm(decoder) : decoder, {
    count: config.integer(first('n_routed_experts', 'num_experts'), LIMITS.experts, otherwise.count),
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, otherwise.perToken),
    width,
    router,
    shared: { size: width * shared, gate: false },
    dense: (layer) => layer < dense,
  });
}

/**
 * The configuration with the share of a head that it rotates, of one that counts these elements alone, as SGLang and
 * vLLM read it; llama.cpp and the code beside the checkpoints read the share only.
 */
function withShare(config: Fields): Fields {
  const stated = [config, rotaryFields(config)].some(
    (fields) => (fields.raw('partial_rotary_factor') ?? null) !== null,
  );
  const rotated = config.raw('rotary_dim') ?? null;
  if (stated || rotated === null) return config;
  const { headDim } = readSizes(config, LING);
  const dims = config.integer('rotary_dim', { min: 2, max: headDim });
  if (dims % 2 !== 0) config.refuse('rotary_dim', 'an even number');
  // Not less than the quotient, so that a head's elements times it are no fewer.
  return config.with({ partial_rotary_factor: Math.min(1, (dims / headDim) * (1 + Number.EPSILON)) });
}

const BIAS = 'mlp.gate.expert_bias';
const QUERY_NORM = 'attention.query_layernorm.weight';

/**
 * The router by `score_function`: a softmax as in Ling 1, or a logistic one, perhaps with a bias and groups. Classes of
 * the same name differ in what they take for granted, so a checkpoint's tensors say what its configuration does not.
 */
function lingRouter(config: Fields, tensors: TensorIndex | undefined): RouterSpec {
  const biased = tensors?.hasInLayers(BIAS) === true;
  const score = config.string('score_function', biased ? 'sigmoid' : 'softmax');
  const normalised = config.boolean('norm_topk_prob', true);
  if (score === 'softmax') return { ...SOFTMAX_AS_IT_IS, normalised };
  if (score !== 'sigmoid') return config.refuse('score_function', 'softmax or sigmoid');
  if (!config.has('routed_scaling_factor')) config.refuse('routed_scaling_factor', 'a number');
  return {
    ...sigmoidRouter(config.withDefaults({ n_group: 8, topk_group: 4 })),
    choiceBias: config.boolean('moe_router_enable_expert_bias', biased),
  };
}

/** Names and weights of its tensors. */
const TENSORS = {
  names: (_: Fields, { attention }: DecoderSpec): Renamed => ({
    ...NOT_APART,
    token_embedding: 'word_embeddings.weight',
    'o.weight': 'attention.dense.weight',
    ...(attention.qkNorm !== 'none' && {
      'q_norm.weight': QUERY_NORM,
      'k_norm.weight': 'attention.key_layernorm.weight',
    }),
  }),
  weights: (decoder: DecoderSpec) => [
    ...fusedQueryKeyValue(`${LLAMA_LAYER}attention.query_key_value`, decoder, 1, ['weight']),
    ...mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: BIAS }),
  ],
} as const;

/** Sarvam's mixtures: norms over heads, DeepSeek V3's experts. GGUF's architecture is Ling 2's. */
export const sarvamMoe = gatedFamily({
  family: 'sarvam_moe',
  defaults: SARVAM,
  style: { rotary: { style: 'halves', share: 1 } },
  decoder: (decoder, config) =>
    mixture(
      decoder,
      config,
      { width: 1024, count: 128, perToken: 6, shared: 1, dense: 1 },
      sigmoidRouter(config.withDefaults({ routed_scaling_factor: 2.5 })),
      true,
    ),
  ...TENSORS,
  gguf: {
    architecture: 'bailingmoe2',
    rotary: 'halves',
    decoder: (decoder, model) =>
      ggufMixture(skipNextTokenLayers(withQueryKeyNorm(decoder), model), model, {
        score: 'sigmoid',
        normalised: false,
      }),
    names: () => ({ ...NOT_APART, ...GGUF_HEAD_NORMS }),
    weights: (decoder, model) => [
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
      ...ggufMixtureWeights(decoder, model),
    ],
  },
});

/** Ling and Ring, 1 and 2: both call themselves so. */
export const bailingMoe: Family = gatedFamily({
  family: 'bailing_moe',
  modelTypes: ['bailing_moe', 'bailing_moe_v2'],
  defaults: LING,
  style: { rotary: { style: 'halves', share: 1 } },
  prepare: withShare,
  decoder: (decoder, config, tensors) =>
    mixture(
      decoder,
      config,
      { width: decoder.feedForwardSize, count: 16, perToken: 2, shared: 0, dense: 0 },
      lingRouter(config, tensors),
      tensors?.hasInLayers(QUERY_NORM) === true,
    ),
  ...TENSORS,
  gguf: {
    architecture: 'bailingmoe',
    rotary: 'pairs',
    decoder: (decoder, model) => ggufMixture(decoder, model, { score: 'softmax', normalised: false }),
    weights: ggufMixtureWeights,
  },
});
