import type { Family } from '../Family.js';
import { latentConfig, type LatentDefaults } from '../latentDecoder.js';
import { listedDenseLayers, sigmoidRouter } from '../mixture.js';
import { deepFamily, withDeepExperts } from './deepseek.js';

const DEFAULTS: LatentDefaults = {
  vocabulary: 154880,
  hidden: 2048,
  feedForward: 10240,
  layers: 47,
  heads: 20,
  context: 202752,
  epsilon: 1e-5,
  theta: 10000,
  rank: 512,
  queryRank: 768,
  rotated: 64,
  plain: 192,
  value: 256,
};
const EXPERTS = { width: 1536, count: 64, perToken: 4, shared: 1, dense: 1 };

/** GLM-4.7-Flash: DeepSeek V3's layers. */
export const glm4MoeLite: Family = deepFamily(['glm4_moe_lite'], (config) => {
  const decoder = latentConfig('glm4_moe_lite', config, DEFAULTS);
  const router = sigmoidRouter(config.withDefaults({ routed_scaling_factor: 1.8 }));
  return withDeepExperts(decoder, config, router, EXPERTS, listedDenseLayers(config, decoder.layers));
});
