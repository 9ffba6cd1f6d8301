import type { DecoderSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryFields } from '../configRotary.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedFeedForwardWeights, LLAMA_BASES, LLAMA_LAYER, readSizes, unpositionedDecoder } from '../gatedDecoder.js';
import { mixedLayers } from '../mixers.js';
import { requireSilu, rotary } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { head, weights } from '../weights.js';
import { HEAD_NORMS, OLMO_DEFAULTS } from './olmo2.js';

const DEFAULTS = { ...OLMO_DEFAULTS, vocabulary: 100352, hidden: 3840, heads: 30, context: 65536, epsilon: 1e-6 };
/** Every so-manieth layer attends. */
const PATTERN = 4;
const TAPS = { min: 1, max: 64 };
/** That of the norm of what a state gives, whatever the configuration says of others. */
const EPSILON = 1e-5;
const BIASED = ['q', 'k', 'v', 'o'] as const;
const CONVOLUTION = 'linear_attn.conv1d.weight';

/** OLMo Hybrid: gated DeltaNet with norms before branches, among OLMo 3's attention with norms after them. */
export const olmoHybrid: Family = {
  modelTypes: ['olmo_hybrid'],
  fromConfig(config, tensors) {
    const sizes = readSizes(config, DEFAULTS);
    requireSilu(config);
    const plain = unpositionedDecoder(
      'olmo_hybrid',
      sizes,
      config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon),
    );
    const decoder: DecoderSpec = {
      ...plain,
      ...positions(config, sizes),
      attention: { ...plain.attention, qkNorm: 'row' },
      recurrent: { taps: config.integer('linear_conv_kernel_dim', TAPS, 4), delta: deltaSizes(config, sizes) },
      layerSpecs: mixedLayers(
        config,
        sizes.layers,
        ['linear_attention'],
        'delta-rule',
        (layer) => layer % PATTERN === PATTERN - 1 || (sizes.layers < PATTERN && layer === sizes.layers - 1),
      ).map((layer) => (layer.mixer === undefined ? { ...layer, branched: true } : layer)),
    };
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...norms(decoder),
        ...weights(LLAMA_LAYER, {
          'q.weight': 'self_attn.q_proj.weight',
          'k.weight': 'self_attn.k_proj.weight',
          'v.weight': 'self_attn.v_proj.weight',
          'o.weight': 'self_attn.o_proj.weight',
          ...HEAD_NORMS,
        }),
        ...(config.boolean('attention_bias', false) ? BIASED : []).flatMap((role) =>
          weights(LLAMA_LAYER, { [`${role}.bias`]: `self_attn.${role}_proj.bias` }),
        ),
        ...deltaWeights(tensors),
        ...gatedFeedForwardWeights(),
      ],
    };
  },
};

type Sizes = ReturnType<typeof readSizes>;

/** Published ones have null as the base of frequencies, and no positions; with one, layers that attend rotate. */
function positions(config: Fields, sizes: Sizes): Pick<DecoderSpec, 'position' | 'contextTokens'> {
  const settings = rotaryFields(config);
  const from = settings.has('rope_theta') ? settings : config;
  if (from.raw('rope_theta') === null) return { position: { kind: 'none' }, contextTokens: sizes.contextTokens };
  const theta = from.number('rope_theta', LIMITS.theta, DEFAULTS.theta);
  const { table, contextTokens } = configuredRotary(settings, {
    dims: sizes.headDim,
    theta,
    contextTokens: sizes.contextTokens,
  });
  return { position: rotary('halves', sizes.headDim, table), contextTokens };
}

function deltaSizes(
  config: Fields,
  { heads, hiddenSize }: Sizes,
): NonNullable<NonNullable<DecoderSpec['recurrent']>['delta']> {
  const keyHeads = config.integerOrNull('linear_num_key_heads', LIMITS.heads, null) ?? heads;
  const keyDim =
    config.integerOrNull('linear_key_head_dim', LIMITS.headDim, null) ?? Math.floor((0.75 * hiddenSize) / keyHeads);
  return {
    keyHeads,
    valueHeads: config.integerOrNull('linear_num_value_heads', LIMITS.heads, null) ?? heads,
    keyDim,
    valueDim: config.integerOrNull('linear_value_head_dim', LIMITS.headDim, null) ?? 2 * keyDim,
    apart: true,
    betaScale: config.boolean('linear_allow_neg_eigval', true) ? 2 : 1,
    epsilon: EPSILON,
  };
}

/** Norms as checkpoints name them, or as transformers does. */
function norms({ layerSpecs }: DecoderSpec): WeightSource[] {
  const branched = (layer: number): boolean => layerSpecs[layer]?.branched === true;
  const norm = (role: WeightSource['role'], name: string, otherwise: string, of: boolean): WeightSource => ({
    role,
    tensor: `${LLAMA_LAYER}${name}.weight`,
    otherwise: `${LLAMA_LAYER}${otherwise}.weight`,
    layers: (layer) => branched(layer) === of,
  });
  return [
    norm('norm1.weight', 'attention_layer_norm', 'input_layernorm', false),
    norm('norm2.weight', 'feedforward_layer_norm', 'post_attention_layernorm', false),
    norm('post_norm1.weight', 'post_attention_layernorm', 'feedforward_layer_norm', true),
    norm('post_norm2.weight', 'post_feedforward_layernorm', 'post_feedforward_layernorm', true),
  ];
}

function deltaWeights(tensors: TensorIndex | undefined): WeightSource[] {
  const joined = tensors?.hasInLayers(CONVOLUTION) === true;
  return [
    ...weights(`${LLAMA_LAYER}linear_attn.`, {
      'delta_q.weight': 'q_proj.weight',
      'delta_k.weight': 'k_proj.weight',
      'delta_v.weight': 'v_proj.weight',
      'delta_gate.weight': 'g_proj.weight',
      'delta_decay.weight': 'a_proj.weight',
      'delta_beta.weight': 'b_proj.weight',
      'delta_norm.weight': 'o_norm.weight',
      'delta_out.weight': 'o_proj.weight',
      'decay.log': 'A_log',
      'decay.bias': 'dt_bias',
    }),
    {
      role: 'delta_conv.weight',
      tensor: `${LLAMA_LAYER}${joined ? CONVOLUTION : 'linear_attn.{piece}_conv1d.weight'}`,
      reshaped: true,
      // transformers writes three of about equal size, wherever queries, keys and values end.
      ...(!joined && { pieces: ['q', 'k', 'v'], unequal: true }),
    },
  ];
}
