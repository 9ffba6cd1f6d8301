import type { Fields } from '../Fields.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { withMultipliers } from './granite.js';
import { LLAMA_DEFAULTS } from './llama.js';

const hasPostNorms = (config: Fields): boolean => config.boolean('use_post_norm', true);

/** HyperCLOVA X: Granite with norms after its branches, and a factor on logits that multiplies. */
export const hyperClovaX = gatedFamily({
  family: 'hyperclovax',
  defaults: LLAMA_DEFAULTS,
  decoder(decoder, config) {
    const scaled = withMultipliers(
      decoder,
      config.withDefaults({ attention_multiplier: decoder.attention.scale }).with({ logits_scaling: 1 }),
    );
    const logitScale = config.number('logits_scaling', { min: 1e-6, max: 1e6 }, 1);
    return { ...scaled, logitScale, ...(hasPostNorms(config) && { residual: 'sandwich' as const }) };
  },
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
    ...(hasPostNorms(config) && { 'post_norm1.weight': 'post_norm1.weight', 'post_norm2.weight': 'post_norm2.weight' }),
  }),
});
