import { gatedFamily, type Renamed } from '../gatedFamily.js';
import { LLAMA_LAYER } from '../gatedDecoder.js';
import { MLP_EXPERTS, mixtureWeights, sigmoidRouter, withExperts } from '../mixture.js';
import { LIMITS } from '../Fields.js';
import { withQueryKeyNorm } from '../specs.js';
import { fusedQueryKeyValue } from '../weights.js';

const NOT_APART: Renamed = { 'q.weight': undefined, 'k.weight': undefined, 'v.weight': undefined };

/** Sarvam's mixtures: norms over heads, one tensor of queries, keys and values, DeepSeek V3's experts. */
export const sarvamMoe = gatedFamily({
  family: 'sarvam_moe',
  defaults: {
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
  },
  style: { rotary: { style: 'halves', share: 1 } },
  decoder(decoder, config) {
    const first = (...names: readonly string[]): string => names.find((name) => config.has(name)) ?? names[0] ?? '';
    const width = config.integer('moe_intermediate_size', LIMITS.feedForward, 1024);
    const dense = config.integer('first_k_dense_replace', { min: 0, max: LIMITS.layers.max }, 1);
    const shared = config.integer(first('n_shared_experts', 'num_shared_experts'), LIMITS.experts, 1);
    if (config.boolean('attention_bias', false) || config.boolean('use_qkv_bias', false))
      config.refuse('attention_bias', 'false');
    return withExperts(config.boolean('use_qk_norm', true) ? withQueryKeyNorm(decoder) : decoder, {
      count: config.integer(first('n_routed_experts', 'num_experts'), LIMITS.experts, 128),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 6),
      width,
      router: sigmoidRouter(config.withDefaults({ routed_scaling_factor: 2.5 })),
      shared: { size: width * shared, gate: false },
      dense: (layer) => layer < dense,
    });
  },
  names: (_, { attention }) => ({
    ...NOT_APART,
    token_embedding: 'word_embeddings.weight',
    'o.weight': 'attention.dense.weight',
    ...(attention.qkNorm !== 'none' && {
      'q_norm.weight': 'attention.query_layernorm.weight',
      'k_norm.weight': 'attention.key_layernorm.weight',
    }),
  }),
  weights: (decoder) => [
    ...fusedQueryKeyValue(`${LLAMA_LAYER}attention.query_key_value`, decoder, 1, ['weight']),
    ...mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: 'mlp.gate.expert_bias' }),
  ],
});
