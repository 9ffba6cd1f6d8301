import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { latentConfig, latentGguf, type LatentDefaults } from '../latentDecoder.js';
import { listedDenseLayers, sigmoidRouter } from '../mixture.js';
import { deepFamily, deepGguf, V3, withDeepExperts } from './deepseek.js';

const GLM: LatentDefaults = {
  vocabulary: 154880,
  hidden: 6144,
  feedForward: 12288,
  layers: 78,
  heads: 64,
  context: 202752,
  epsilon: 1e-5,
  theta: 10000,
  rank: 512,
  queryRank: 2048,
  rotated: 64,
  plain: 192,
  value: 256,
};
/** The names of its tensors in GGUF. */
const INDEXER = /^blk\.\d+\.indexer\.(k_norm|proj|attn_k|attn_q_b)\.(weight|bias)$/;
const EXPERTS = { width: 2048, count: 256, perToken: 8, shared: 1, dense: 3 };

/**
 * An indexer chooses the `index_topk` keys that a token sees. A row of as many positions sees all of them, whatever the
 * indexer says: rows may be as long, and are computed without it.
 */
function seenWhole(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const chosen = config.integer('index_topk', LIMITS.context, 2048);
  return { ...decoder, contextTokens: Math.min(decoder.contextTokens, chosen) };
}

function sparse(family: string, defaults: LatentDefaults, groups: { n_group: number; topk_group: number }): Family {
  return deepFamily([family], (given) => {
    // Neighbours rotate together, always.
    const config = given.withDefaults({ ...groups, routed_scaling_factor: 2.5 }).with({ rope_interleave: true });
    const decoder = seenWhole(latentConfig(family, config, defaults), config);
    const dense = listedDenseLayers(config, decoder.layers);
    return withDeepExperts(decoder, config, sigmoidRouter(config), EXPERTS, dense);
  });
}

/** DeepSeek V3.2: V3 whose tokens see the keys that an indexer chooses. */
export const deepseekV32 = sparse('deepseek_v32', { ...V3, context: 163840 }, { n_group: 8, topk_group: 4 });

/** GLM-5: the same layers. */
export const glmMoeDsa: Family = {
  ...sparse('glm_moe_dsa', GLM, { n_group: 1, topk_group: 1 }),
  gguf: {
    architecture: 'glm-dsa',
    describe(model) {
      const { fields, tensors } = model;
      const latent = latentGguf('glm_moe_dsa', model, 'pairs');
      const chosen = fields.integer('attention.indexer.top_k', LIMITS.context, 2048);
      for (const name of tensors.unused()) if (INDEXER.test(name)) tensors.take(name);
      const seen = { ...latent, contextTokens: Math.min(latent.contextTokens, chosen) };
      return deepGguf(seen, model, { score: 'sigmoid', normalised: true });
    },
  },
};
