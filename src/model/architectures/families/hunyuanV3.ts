import { LIMITS } from '../Fields.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { listedDenseLayers, MLP_EXPERTS, mixtureWeights, withExperts } from '../mixture.js';
import { requireFalse, withQueryKeyNorm } from '../specs.js';
import { HEAD_NORMS } from './olmo2.js';

/** Hunyuan 3: norms over heads, a logistic router with a bias, a block beside the experts of all layers but some. */
export const hunyuanV3 = gatedFamily({
  family: 'hy_v3',
  defaults: {
    vocabulary: 120832,
    hidden: 4096,
    feedForward: 13312,
    layers: 80,
    heads: 64,
    kvHeads: 8,
    headDim: 128,
    context: 131072,
    epsilon: 1e-5,
    theta: 11158840,
  },
  decoder(decoder, config) {
    requireFalse(config, 'mlp_bias');
    const width = config.integer('moe_intermediate_size', LIMITS.feedForward, 1536);
    const shared = config.integerOrNull('num_shared_experts', { min: 0, max: LIMITS.experts.max }, 1) ?? 0;
    return withExperts(withQueryKeyNorm(decoder), {
      count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 192),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width,
      router: {
        score: 'sigmoid',
        normalised: true,
        scale: config.number('router_scaling_factor', LIMITS.factor, 2.826),
        choiceBias: true,
      },
      shared: { size: width * shared, gate: false },
      dense: listedDenseLayers(config, decoder.layers) ?? ((layer) => layer === 0),
    });
  },
  names: (config) => ({ ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'), ...HEAD_NORMS }),
  weights: (decoder) =>
    mixtureWeights(decoder, {
      ...MLP_EXPERTS,
      router: 'mlp.router.gate.weight',
      choiceBias: 'mlp.expert_bias',
      shared: (role) => `mlp.shared_mlp.${role}_proj.weight`,
    }),
});
