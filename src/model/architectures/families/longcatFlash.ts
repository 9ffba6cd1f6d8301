import type { DecoderSpec } from '../../DecoderSpec.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_BASES } from '../gatedDecoder.js';
import { latentConfig, latentWeights, type LatentDefaults } from '../latentDecoder.js';
import { mixtureWeights, withExperts, type MixtureNames } from '../mixture.js';

const DEFAULTS: LatentDefaults = {
  vocabulary: 131072,
  hidden: 6144,
  feedForward: 12288,
  layers: 56,
  heads: 64,
  context: 131072,
  epsilon: 1e-5,
  theta: 10000000,
  rank: 512,
  queryRank: 1536,
  rotated: 64,
  plain: 128,
  value: 128,
};
/** Layers of a file, each of which is two here. */
const LAYERS = 28;
const EXPERTS = { count: 512, perToken: 12, width: 2048, identities: 256, scale: 6 };
/** Names of the class's own, each with what transformers calls the same of other models. */
const ALIASES = [
  ['moe_topk', 'num_experts_per_tok'],
  ['ffn_hidden_size', 'intermediate_size'],
  ['expert_ffn_hidden_size', 'moe_intermediate_size'],
  ['n_routed_experts', 'num_local_experts'],
] as const;
const NAMES: MixtureNames = {
  router: 'mlp.router.classifier.weight',
  choiceBias: 'mlp.router.e_score_correction_bias',
  expert: (role, expert) => `mlp.experts.${expert}.${role}_proj.weight`,
  shared: (role) => `mlps.0.${role}_proj.weight`,
  dense: (role) => `mlps.1.${role}_proj.weight`,
};

/** LongCat-Flash: latent attention twice a layer, and experts, some of which compute nothing, beside the second one. */
export const longcatFlash: Family = {
  modelTypes: ['longcat_flash'],
  fromConfig(file) {
    refuseOthers(file);
    const given = withAliases(file);
    const config = given.with({
      num_hidden_layers: layersOf(file),
      intermediate_size: given.integer('ffn_hidden_size', LIMITS.feedForward, DEFAULTS.feedForward),
    });
    const decoder = withShortcuts(scaled(latentConfig('longcat_flash', config, DEFAULTS, 'pairs'), config), config);
    const own = latentWeights(decoder, config.boolean('tie_word_embeddings', false), false);
    return {
      decoder,
      bases: LLAMA_BASES,
      layerNumbers: decoder.layerSpecs.map((_, layer) => Math.floor(layer / 2)),
      weights: [...own.flatMap(ofBoth), ...mixtureWeights(decoder, NAMES)],
    };
  },
};

/** A configuration whose own names are read by transformers' aliases where it has these alone. */
function withAliases(config: Fields): Fields {
  const others = ALIASES.filter(([own, alias]) => {
    const [found, aliased] = [config.raw(own) ?? null, config.raw(alias) ?? null];
    if (found !== null && aliased !== null && found !== aliased)
      config.refuse(alias, `as ${own}, ${JSON.stringify(found)}`);
    return found === null && aliased !== null;
  });
  return config.renamed(Object.fromEntries(others));
}

/** Layers here, which transformers counts in `num_hidden_layers`. */
function layersOf(config: Fields): number {
  const bounds = { min: 1, max: LIMITS.layers.max / 2 };
  const doubled = config.integerOrNull('num_hidden_layers', { min: 2, max: LIMITS.layers.max }, null);
  const layers = 2 * config.integer('num_layers', bounds, doubled === null ? LAYERS : Math.floor(doubled / 2));
  return doubled === null || doubled === layers
    ? layers
    : config.refuse('num_hidden_layers', `two for each of num_layers, ${layers}`);
}

/** Queries, and what keys and values are made of, are as large as the hidden states that they come from. */
function scaled(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const { attention, hiddenSize } = decoder;
  const { latent } = attention;
  if (latent === undefined || latent.queryRank === 0) return config.refuse('q_lora_rank', 'a number of at least 1');
  const each = latent.plain + latent.rotated;
  if ((config.integerOrNull('qk_head_dim', LIMITS.latent, null) ?? each) !== each)
    config.refuse('qk_head_dim', `qk_nope_head_dim + qk_rope_head_dim, ${each}`);
  return {
    ...decoder,
    attention: {
      ...attention,
      scale: attention.scale * Math.sqrt(hiddenSize / latent.queryRank),
      latent: { ...latent, scale: Math.fround(Math.sqrt(hiddenSize / latent.rank)) },
    },
  };
}

/** Experts in every second layer, of which the next one adds what they give. */
function withShortcuts(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const none = { min: 0, max: LIMITS.experts.max };
  const identities = config.integerOrNull('zero_expert_num', none, EXPERTS.identities) ?? 0;
  const mixed = withExperts(decoder, {
    count: config.integer('n_routed_experts', LIMITS.experts, EXPERTS.count),
    perToken: config.integer('moe_topk', LIMITS.experts, EXPERTS.perToken),
    width: config.integer('expert_ffn_hidden_size', LIMITS.feedForward, EXPERTS.width),
    router: {
      score: 'softmax',
      normalised: false,
      scale: config.number('routed_scaling_factor', LIMITS.factor, EXPERTS.scale),
      choiceBias: true,
    },
    shared: { size: decoder.feedForwardSize, gate: false },
    dense: (layer) => layer % 2 === 1,
  });
  const { experts } = mixed.feedForward;
  if (experts === undefined) return mixed;
  return {
    ...mixed,
    feedForward: {
      ...mixed.feedForward,
      experts: { ...experts, aside: true, ...(identities > 0 && { identities }) },
    },
  };
}

/** A layer's own weights, of both layers that one of its file is. */
function ofBoth(source: WeightSource): readonly WeightSource[] {
  if (!source.tensor.includes('{layer}')) return [source];
  return [0, 1].map((index) => ({
    ...source,
    tensor: source.tensor.replace(/(self_attn|input_layernorm|post_attention_layernorm)\./, `$1.${index}.`),
    layers: (layer: number) => layer % 2 === index,
  }));
}

function refuseOthers(config: Fields): void {
  for (const key of ['router_bias', 'attention_bias']) if (config.boolean(key, false)) config.refuse(key, 'false');
  for (const key of ['mla_scale_q_lora', 'mla_scale_kv_lora'])
    if (!config.boolean(key, true)) config.refuse(key, 'true');
  if (config.string('zero_expert_type', 'identity') !== 'identity') config.refuse('zero_expert_type', 'identity');
}
