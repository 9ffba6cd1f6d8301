import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_BASES, LLAMA_LAYER } from '../gatedDecoder.js';
import { latentConfig, latentWeights, type LatentDefaults } from '../latentDecoder.js';
import { mixedLayers } from '../mixers.js';
import { listedDenseLayers, MLP_EXPERTS, mixtureWeights, sigmoidRouter } from '../mixture.js';
import { requireSilu } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { weights } from '../weights.js';
import { withDeepExperts } from './deepseek.js';
import { KIMI_TAPS, keyHeadsOf, kimiDeltaWeights, withKimiNames } from './kimiLinear.js';

const DEFAULTS: LatentDefaults = {
  vocabulary: 157184,
  hidden: 2560,
  feedForward: 6144,
  layers: 42,
  heads: 32,
  context: 262144,
  epsilon: 1e-6,
  theta: 6000000,
  rank: 512,
  queryRank: null,
  rotated: 64,
  plain: 128,
  value: 128,
};
const EXPERTS = { width: 768, count: 512, perToken: 8, shared: 1, dense: 2 };
/** Gates and decays are made by one product each. */
const ONE_PRODUCT = { 'delta_gate.weight': 'g_proj.weight', 'delta_decay.weight': 'f_proj.weight' };
/** Every so-manieth layer attends. */
const GROUP = 6;
/** The least that a decay's logarithm can be. */
const LEAST = -5;
/** A tensor of Ling 2.5, whose linear layers forget without a rule of deltas. */
const LIGHTNING = 'attention.query_key_value.weight';

/**
 * Ling 3: layers of Kimi's delta attention, whose decays are bounded and of one product each, among ones of latent
 * attention that a gate for each head weighs; experts as DeepSeek V3 has them.
 */
export const bailingHybrid: Family = {
  modelTypes: ['bailing_hybrid'],
  fromConfig(given, tensors) {
    const config = withKimiNames(given);
    refuseOthers(config, tensors);
    const plain = latentConfig('bailing_hybrid', config, DEFAULTS, 'pairs');
    const group = config.integer('layer_group_size', LIMITS.layers, GROUP);
    const decoder = withDeepExperts(
      {
        ...plain,
        attention: { ...plain.attention, gate: true, gatesHeads: true },
        recurrent: { taps: taps(config), delta: deltaSizes(config, plain.heads) },
        layerSpecs: mixedLayers(
          config,
          plain.layers,
          ['linear_attention'],
          'delta-rule',
          (layer) => (layer + 1) % group === 0,
        ),
      },
      config,
      sigmoidRouter(config.withDefaults({ n_group: 8, topk_group: 4, routed_scaling_factor: 2.5 })),
      EXPERTS,
      listedDenseLayers(config, plain.layers),
    );
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...latentWeights(
          decoder,
          config.boolean('tie_word_embeddings', false),
          config.boolean('attention_bias', false),
        ).map(named),
        ...weights(LLAMA_LAYER, { 'q_gate.weight': 'attention.g_proj.weight' }),
        ...kimiDeltaWeights(ONE_PRODUCT).map(named),
        ...mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: 'mlp.gate.expert_bias' }),
      ],
    };
  },
};

function refuseOthers(config: Fields, tensors: TensorIndex | undefined): void {
  if (tensors?.hasInLayers(LIGHTNING) === true)
    config.refuse('model_type', 'bailing_hybrid of Ling 3: lightning attention (Ling 2.5) is not computed');
  requireSilu(config);
}

/** transformers writes sizes of linear layers under names of its own beside those that a checkpoint has. */
function taps(config: Fields): number {
  return config.integer(
    config.has('linear_conv_kernel_dim') ? 'linear_conv_kernel_dim' : 'short_conv_kernel_size',
    KIMI_TAPS,
    4,
  );
}

function deltaSizes(config: Fields, heads: number): NonNullable<NonNullable<DecoderSpec['recurrent']>['delta']> {
  const width = config.integer(config.has('linear_head_dim') ? 'linear_head_dim' : 'head_dim', LIMITS.headDim, 128);
  const bounded = config.boolean('kda_safe_gate', true);
  return {
    ...keyHeadsOf(config.integer('linear_num_heads', LIMITS.heads, heads), width),
    byKey: { rank: 0, least: bounded ? config.number('kda_lower_bound', { min: -1e6, max: -1e-6 }, LEAST) : 0 },
  };
}

/** Tensors are DeepSeek's but for some names, which some checkpoints have as well. */
function named(source: WeightSource): WeightSource {
  if (source.role === 'token_embedding')
    return { ...source, tensor: '{base}word_embeddings.weight', otherwise: source.tensor };
  const tensor = source.tensor.replace('.self_attn.', '.attention.');
  return tensor.includes('.o_proj.')
    ? { ...source, tensor: tensor.replace('.o_proj.', '.dense.'), otherwise: tensor }
    : { ...source, tensor };
}
