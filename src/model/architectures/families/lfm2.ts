import type { DecoderSpec, LayerSpec, RouterSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryTheta, wholeHeadRotary } from '../configRotary.js';
import type { Family, GgufModel, WeightSource } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { gatedGguf, LLAMA_BASES, LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { ggufAttendingLayers } from '../ggufMixedLayers.js';
import { layersByMixer, mixedLayers } from '../mixers.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, withExperts, type MixtureNames } from '../mixture.js';
import { proportionalFrequencies } from '../rotaryFrequencies.js';
import { rotary, withQueryKeyNorm } from '../specs.js';
import { GGUF_LAYER, ggufAttention, ggufGated, head, weights } from '../weights.js';

const DENSE: GatedDefaults = {
  vocabulary: 65536,
  hidden: 2560,
  feedForward: 12288,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 128000,
  epsilon: 1e-5,
  theta: 1e6,
};
const MIXED: GatedDefaults = { ...DENSE, hidden: 2048, feedForward: 7168 };
const THIRD: GatedDefaults = {
  ...DENSE,
  vocabulary: 128000,
  hidden: 2048,
  feedForward: 7680,
  layers: 24,
  heads: 16,
  kvHeads: 4,
  headDim: 128,
};
/** How LFM3's layers that see everything, and those that see a window, rotate. */
const THIRD_ROTARY = [
  ['full_attention', 1e6, 'proportional', 0.5],
  ['sliding_attention', 1e4, 'default', 1],
] as const;
const THIRD_BLOCK = {
  'gate.weight': 'feed_forward.w1.weight',
  'up.weight': 'feed_forward.w3.weight',
  'down.weight': 'feed_forward.w2.weight',
} as const;
const TAPS = { min: 1, max: 64 };
const BLOCK = { gate: 'w1', up: 'w3', down: 'w2' } as const;
const NAMES: MixtureNames = {
  router: 'feed_forward.gate.weight',
  choiceBias: 'feed_forward.expert_bias',
  expert: (role, expert) => `feed_forward.experts.${expert}.${BLOCK[role]}.weight`,
  dense: (role) => `feed_forward.${BLOCK[role]}.weight`,
};

/** LFM2: most layers are a gated convolution over the last few tokens, the others attend. */
export const lfm2: Family = {
  modelTypes: ['lfm2'],
  fromConfig(config) {
    const given = config.withDefaults({ intermediate_size: config.raw('block_ff_dim') });
    const plain = describeConfig('lfm2', given, DENSE);
    const decoder = { ...plain, feedForwardSize: feedForwardSize(config, plain.feedForwardSize) };
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [...weightsOf(config), ...weights(LLAMA_LAYER, THIRD_BLOCK)],
    };
  },
  gguf: {
    architecture: 'lfm2',
    describe(whole) {
      const { decoder, model } = describeGguf('lfm2', whole);
      return { decoder, weights: [...ggufWeights(model), ...ggufGated()] };
    },
  },
};

/** LFM3: LFM2 with norms after its branches, windows, and a gate of each head. */
export const lfm3: Family = {
  modelTypes: ['lfm3'],
  fromConfig(config) {
    if (config.boolean('attention_bias', false)) config.refuse('attention_bias', 'false');
    const kinds = config.raw('layer_types') ?? undefined;
    const layers = config.integer('num_hidden_layers', LIMITS.layers, THIRD.layers);
    const kindOf = (layer: number): string =>
      layer % 4 === 2 ? 'full_attention' : layer % 4 === 0 && layer > 0 ? 'sliding_attention' : 'conv';
    const listed: unknown = kinds ?? Array.from({ length: layers }, (_, layer) => kindOf(layer));
    const slides = (layer: number): boolean => Array.isArray(listed) && listed[layer] === 'sliding_attention';
    const given = config.with({
      conv_L_cache: config.raw('conv_L_cache') ?? 7,
      layer_types: Array.isArray(listed)
        ? listed.map((kind: unknown) => (kind === 'sliding_attention' ? 'full_attention' : kind))
        : listed,
      rope_parameters: undefined,
    });
    const plain = describeConfig('lfm3', given, THIRD);
    const window = config.integer('sliding_window', LIMITS.window, 256);
    const gated = config.boolean('use_attention_gate', true);
    const sandwich = config.boolean('use_sandwich_norm', true);
    const decoder: DecoderSpec = {
      ...plain,
      residual: sandwich ? 'sandwich' : 'pre',
      attention: { ...plain.attention, ...(gated && { gate: true, gatesHeads: true }) },
      position: rotary('halves', plain.headDim, ...thirdTables(config, plain)),
      layerSpecs: plain.layerSpecs.map((layer, index) =>
        slides(index) ? { ...layer, window, rotaryTable: 1 } : layer,
      ),
    };
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...weightsOf(config).filter(({ role }) => !['o.weight', 'q_norm.weight', 'k_norm.weight'].includes(role)),
        ...(gated
          ? [
              {
                role: 'q_gate.weight' as const,
                // As checkpoints, and as transformers 5 call it.
                tensor: `${LLAMA_LAYER}self_attn.gate_proj.weight`,
                otherwise: `${LLAMA_LAYER}self_attn.g_proj.weight`,
              },
            ]
          : []),
        ...weights(LLAMA_LAYER, {
          'o.weight': 'self_attn.o_proj.weight',
          'q_norm.weight': 'self_attn.q_norm.weight',
          'k_norm.weight': 'self_attn.k_norm.weight',
          ...(sandwich && {
            'post_norm1.weight': 'post_operator_norm.weight',
            'post_norm2.weight': 'post_ffn_norm.weight',
          }),
          ...THIRD_BLOCK,
        }),
      ],
    };
  },
};

function thirdTables(
  config: Fields,
  { headDim, contextTokens }: DecoderSpec,
): { readonly frequencies: Float32Array; readonly scale: number }[] {
  return THIRD_ROTARY.map(([key, base, kind, share]) => {
    const fields = config.child('rope_parameters')?.child(key) ?? Fields.ofObject(config.file, {}, 'rope_parameters');
    const theta = rotaryTheta(fields, config, 'rope_theta', base);
    return fields.string('rope_type', kind) === 'proportional'
      ? {
          frequencies: proportionalFrequencies(
            theta,
            headDim,
            fields.number('partial_rotary_factor', { min: 0, max: 1 }, share),
          ),
          scale: 1,
        }
      : configuredRotary(fields, { dims: headDim, theta, contextTokens }).table;
  });
}

/** LFM2 with experts in all but the first layers. */
export const lfm2Moe: Family = {
  modelTypes: ['lfm2_moe'],
  fromConfig(config) {
    const dense = config.integer('num_dense_layers', { min: 0, max: LIMITS.layers.max }, 2);
    const plain = describeConfig('lfm2_moe', config, MIXED);
    const decoder = withExperts(plain, {
      count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 32),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 4),
      width: config.integer('moe_intermediate_size', LIMITS.feedForward, 1792),
      router: routerOf(config),
      dense: (layer) => layer < dense,
    });
    return { decoder, bases: LLAMA_BASES, weights: [...weightsOf(config), ...mixtureWeights(decoder, NAMES)] };
  },
  gguf: {
    architecture: 'lfm2moe',
    describe(whole) {
      const { decoder: plain, model } = describeGguf('lfm2_moe', whole);
      const decoder = withRouterEpsilon(ggufMixture(plain, model, { score: 'sigmoid', normalised: true }));
      return { decoder, weights: [...ggufWeights(model), ...ggufMixtureWeights(decoder, model)] };
    },
  },
};

function describeConfig(family: string, config: Fields, defaults: GatedDefaults): DecoderSpec {
  const sizes = readSizes(config, defaults);
  const { headDim, hiddenSize, layers } = sizes;
  const { table, contextTokens } = wholeHeadRotary(config, headDim, sizes.contextTokens, defaults.theta);
  if (config.boolean('conv_bias', false)) config.refuse('conv_bias', 'false');
  const full = config.raw('full_attn_idxs');
  const attends = (layer: number): boolean => !Array.isArray(full) || full.includes(layer);
  return {
    family,
    ...sizes,
    contextTokens,
    norm: { kind: 'rms', epsilon: config.number('norm_eps', LIMITS.epsilon, defaults.epsilon) },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: hiddenSize, scale: 1 },
    attention: { scale: headDim ** -0.5, qkNorm: 'head' },
    recurrent: { taps: config.integer('conv_L_cache', TAPS, 3) },
    position: rotary('halves', headDim, table),
    feedForward: { kind: 'gated', activation: 'silu' },
    layerSpecs: mixedLayers(config, layers, ['conv'], 'short-convolution', attends),
  };
}

/** All but the feed-forward blocks. */
function weightsOf(config: Fields): WeightSource[] {
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'embedding_norm.weight' }),
    head('lm_head.weight', config.boolean('tie_word_embeddings', config.boolean('tie_embedding', true))),
    ...weights(LLAMA_LAYER, {
      'norm1.weight': 'operator_norm.weight',
      'norm2.weight': 'ffn_norm.weight',
      'q.weight': 'self_attn.q_proj.weight',
      'k.weight': 'self_attn.k_proj.weight',
      'v.weight': 'self_attn.v_proj.weight',
      'o.weight': 'self_attn.out_proj.weight',
      'q_norm.weight': 'self_attn.q_layernorm.weight',
      'k_norm.weight': 'self_attn.k_layernorm.weight',
      'conv_in.weight': 'conv.in_proj.weight',
      'conv_out.weight': 'conv.out_proj.weight',
    }),
    ...weights(LLAMA_LAYER, { 'conv.weight': 'conv.conv.weight' }, { reshaped: true }),
  ];
}

/** Gives two thirds of the size that is given, multiplied and rounded up, unless the configuration says not to. */
function feedForwardSize(config: Fields, given: number): number {
  if (!config.boolean('block_auto_adjust_ff_dim', true)) return given;
  const multiplier = config.number('block_ffn_dim_multiplier', { min: 0.001, max: 1000 }, 1);
  const multiple = config.integer('block_multiple_of', LIMITS.feedForward, 256);
  return multiple * Math.ceil(Math.floor(multiplier * Math.floor((2 * given) / 3)) / multiple);
}

/** transformers adds this to the sum that scores are divided by. */
const ROUTER_EPSILON = 1e-6;

function routerOf(config: Fields): RouterSpec {
  return {
    score: 'sigmoid',
    normalised: config.boolean('norm_topk_prob', true),
    scale: config.number('routed_scaling_factor', LIMITS.factor, 1),
    choiceBias: config.boolean('use_expert_bias', true),
    epsilon: ROUTER_EPSILON,
  };
}

function withRouterEpsilon(decoder: DecoderSpec): DecoderSpec {
  const { experts } = decoder.feedForward;
  if (experts?.router === undefined) return decoder;
  const router = { ...experts.router, epsilon: ROUTER_EPSILON };
  return { ...decoder, feedForward: { ...decoder.feedForward, experts: { ...experts, router } } };
}

/** GGUF says of a layer without heads of keys and values that it is a convolution; some files have windows. */
function describeGguf(family: string, whole: GgufModel): { readonly decoder: DecoderSpec; readonly model: GgufModel } {
  const { model, attends } = ggufAttendingLayers(whole);
  const plain = withQueryKeyNorm(gatedGguf(family, model, 'halves'));
  const window = model.fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  const layers = layersByMixer(plain.layers, 'short-convolution', attends);
  const slides = (layer: LayerSpec): LayerSpec => (layer.mixer === undefined ? { ...layer, window } : layer);
  return {
    model,
    decoder: {
      ...plain,
      recurrent: { taps: model.fields.integer('shortconv.l_cache', TAPS) },
      layerSpecs: layers.map(slides),
    },
  };
}

function ggufWeights({ tensors }: GgufModel): WeightSource[] {
  return [
    ...weights('', {
      token_embedding: 'token_embd.weight',
      // Named so by mistake in most files.
      'final_norm.weight': tensors.has('token_embd_norm.weight') ? 'token_embd_norm.weight' : 'output_norm.weight',
    }),
    head('output.weight', true),
    ...ggufAttention(),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_norm.weight',
      'norm2.weight': 'ffn_norm.weight',
      'q_norm.weight': 'attn_q_norm.weight',
      'k_norm.weight': 'attn_k_norm.weight',
      'conv_in.weight': 'shortconv.in_proj.weight',
      'conv_out.weight': 'shortconv.out_proj.weight',
    }),
    ...weights(GGUF_LAYER, { 'conv.weight': 'shortconv.conv.weight' }, { reshaped: true }),
  ];
}
