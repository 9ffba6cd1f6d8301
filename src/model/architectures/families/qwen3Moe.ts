import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedGguf,
  LLAMA_BASES,
  LLAMA_LAYER,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { denseQwenLayers, mixtureWeights, SOFTMAX_AS_IT_IS, storedExperts, withExperts } from '../mixture.js';
import { qwenLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { GGUF_LAYER, ggufAttention, ggufExperts, ggufGlobals, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151936,
  hidden: 2048,
  feedForward: 6144,
  layers: 24,
  heads: 32,
  kvHeads: 4,
  headDim: null,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};
const EXPERT_WIDTH = 768;
const EXPERTS = 128;
const EXPERTS_PER_TOKEN = 8;

/** Qwen 3 with a mixture of experts in every layer (30B-A3B, 235B-A22B, Coder), none of them shared by all tokens. */
export const qwen3Moe: Family = {
  modelTypes: ['qwen3_moe'],
  fromConfig(config: Fields, tensors?: TensorIndex): Description {
    const decoder = withQueryKeyNorm(gatedConfig('qwen3_moe', config, DEFAULTS));
    const biases = config.boolean('attention_bias', false) ? (['q', 'k', 'v', 'o'] as const) : [];
    // transformers 5 writes the count under the name that mixtures have in common.
    const count = config.integer(
      config.has('num_experts') ? 'num_experts' : 'num_local_experts',
      LIMITS.experts,
      EXPERTS,
    );
    const mixed = withExperts(
      { ...decoder, layerSpecs: qwenLayers(config, decoder.layers) },
      {
        count,
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, EXPERTS_PER_TOKEN),
        width: config.integer('moe_intermediate_size', LIMITS.feedForward, EXPERT_WIDTH),
        ...(!config.boolean('norm_topk_prob', false) && { router: SOFTMAX_AS_IT_IS }),
        dense: denseQwenLayers(config, decoder.layers),
      },
    );
    return {
      decoder: mixed,
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false), biases),
        ...weights(LLAMA_LAYER, {
          'q_norm.weight': 'self_attn.q_norm.weight',
          'k_norm.weight': 'self_attn.k_norm.weight',
        }),
        ...mixtureWeights(mixed, storedExperts(tensors, mixed.hiddenSize)),
      ],
    };
  },
  gguf: { architecture: 'qwen3moe', describe: describeGguf },
};

/** llama.cpp divides the weights of a token's experts by their sum, always. */
function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const count = fields.integer('expert_count', LIMITS.experts);
  return {
    decoder: {
      ...withQueryKeyNorm(gatedGguf('qwen3_moe', model, 'halves')),
      feedForwardSize: fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward),
      feedForward: {
        kind: 'experts',
        activation: 'silu',
        experts: { count, perToken: fields.integer('expert_used_count', LIMITS.experts) },
      },
    },
    weights: [
      ...ggufGlobals(),
      ...ggufAttention(),
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'norm2.weight': 'ffn_norm.weight',
        'q_norm.weight': 'attn_q_norm.weight',
        'k_norm.weight': 'attn_k_norm.weight',
        'router.weight': 'ffn_gate_inp.weight',
      }),
      ...ggufExperts(tensors, count),
    ],
  };
}
