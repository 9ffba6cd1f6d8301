import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Description, Family, FusedPart, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedGguf,
  LLAMA_BASES,
  LLAMA_LAYER,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { ggufSlidingLayers, slidingLayers, windowedLayers } from '../slidingLayers.js';
import { ggufAttention, ggufExperts, GGUF_LAYER, ggufGlobals, stackedExperts, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 201088,
  hidden: 2880,
  feedForward: 2880,
  layers: 36,
  heads: 64,
  kvHeads: 8,
  headDim: 64,
  context: 131072,
  epsilon: 1e-5,
  theta: 150000,
};
/** Where a file says nothing of it, or null (transformers' GptOssConfig). */
const ROTARY = {
  rope_type: 'yarn',
  factor: 32,
  beta_fast: 32,
  beta_slow: 1,
  truncate: false,
  original_max_position_embeddings: 4096,
};
const EXPERTS = 128;
const EXPERTS_PER_TOKEN = 4;
const WINDOW = 128;
/** Every second layer sees all tokens, the others a window. */
const PATTERN = 2;
/** The constants of the activation, as each published model has them. */
const SWIGLU = { swiglu_alpha: 1.702, swiglu_limit: 7 } as const;

/**
 * gpt-oss: attention sinks, layers that slide in turn with those that do not, and in each layer experts with biases and
 * a clamped activation. Published with the experts' matrices in MXFP4.
 */
export const gptOss: Family = {
  modelTypes: ['gpt_oss'],
  fromConfig(config: Fields): Description {
    refuseOthers(config);
    const rotates = ['rope_parameters', 'rope_scaling'].some((key) => config.child(key) !== undefined);
    const decoder = gatedConfig('gpt_oss', rotates ? config : config.with({ rope_parameters: ROTARY }), DEFAULTS);
    const count = config.integer(
      config.has('num_local_experts') ? 'num_local_experts' : 'num_experts',
      LIMITS.experts,
      EXPERTS,
    );
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % PATTERN !== 0);
    const biases = config.boolean('attention_bias', true) ? (['q', 'k', 'v', 'o'] as const) : [];
    return {
      decoder: {
        ...mixture(decoder, count, config.integer('num_experts_per_tok', LIMITS.experts, EXPERTS_PER_TOKEN)),
        layerSpecs: windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, WINDOW)),
      },
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false), biases),
        ...weights(LLAMA_LAYER, {
          sinks: 'self_attn.sinks',
          'router.weight': 'mlp.router.weight',
          'router.bias': 'mlp.router.bias',
        }),
        ...stackedExperts(count, 'weight', (role) => ({ ...expertTensor(decoder, role), turned: true })),
        ...stackedExperts(count, 'bias', (role) => {
          const { tensor, ...rest } = expertTensor(decoder, role);
          return { tensor: `${tensor}_bias`, ...rest };
        }),
      ],
    };
  },
  gguf: { architecture: 'gpt-oss', describe: describeGguf },
};

/** A layer's rows of gate and up are one tensor's, in turn. */
function expertTensor(
  { feedForwardSize }: DecoderSpec,
  role: 'gate' | 'up' | 'down',
): { readonly tensor: string; readonly part?: FusedPart } {
  if (role === 'down') return { tensor: `${LLAMA_LAYER}mlp.experts.down_proj` };
  return {
    tensor: `${LLAMA_LAYER}mlp.experts.gate_up_proj`,
    part: { groups: feedForwardSize, sizes: [1, 1], index: role === 'gate' ? 0 : 1 },
  };
}

function mixture(decoder: DecoderSpec, count: number, perToken: number): DecoderSpec {
  return {
    ...decoder,
    attention: { ...decoder.attention, sinks: true },
    feedForward: { kind: 'experts', activation: 'clamped-swiglu', experts: { count, perToken } },
  };
}

/** Refuses constants of the clamped activation that no published model has. */
export function refuseOtherSwiglu(config: Fields): void {
  for (const [key, value] of Object.entries(SWIGLU))
    if (config.number(key, { min: 0, max: 1e6 }, value) !== value)
      config.refuse(key, `${value}: other constants of the clamped activation are not supported`);
}

/** Refuses what the configuration can say and no published model does. */
function refuseOthers(config: Fields): void {
  refuseOtherSwiglu(config);
  if (!['silu', 'swish'].includes(config.string('hidden_act', 'silu')))
    config.refuse('hidden_act', 'silu: experts have another activation than the clamped one of gpt-oss');
  const method = config.child('quantization_config')?.raw('quant_method') ?? 'mxfp4';
  if (method !== 'mxfp4')
    config.refuse('quantization_config', 'the quant_method mxfp4, or none: of gpt-oss no other is read', method);
}

function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const count = fields.integer('expert_count', LIMITS.experts);
  // Metadata have no word for it: llama.cpp rounds the range of blended dimensions, the models were made without.
  const decoder = gatedGguf('gpt_oss', model, 'halves', { truncate: false });
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, WINDOW);
  return {
    decoder: {
      ...mixture(decoder, count, fields.integer('expert_used_count', LIMITS.experts)),
      feedForwardSize: fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward, decoder.feedForwardSize),
      layerSpecs: windowedLayers(fields, ggufSlidingLayers(fields, decoder.layers, window, PATTERN), window),
    },
    weights: [
      ...ggufGlobals(),
      ...ggufAttention(),
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'norm2.weight': 'post_attention_norm.weight',
        sinks: 'attn_sinks.weight',
        'router.weight': 'ffn_gate_inp.weight',
        'router.bias': 'ffn_gate_inp.bias',
      }),
      ...ggufExperts(tensors, count),
      ...stackedExperts(count, 'bias', (role) => ({ tensor: `${GGUF_LAYER}ffn_${role}_exps.bias` })),
    ],
  };
}
