import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { listedDenseLayers, MLP_EXPERTS, mixtureWeights, withExperts, type MixtureNames } from '../mixture.js';
import { rotaryTables } from '../rotaryTables.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { requireFalse, rotary, withQueryKeyNorm } from '../specs.js';
import { HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 100352,
  hidden: 2048,
  feedForward: 8192,
  layers: 40,
  heads: 48,
  kvHeads: 8,
  headDim: 128,
  context: 131072,
  epsilon: 1e-6,
  theta: 500000,
};
const LOCAL_THETA = 10000;
const NAMES: MixtureNames = {
  ...MLP_EXPERTS,
  choiceBias: 'mlp.experts.e_score_correction_bias',
  shared: (role) => `mlp.shared_expert.${role}_proj.weight`,
};
/** The rotation of layers that see everything, and of those with a window, where a configuration has no settings. */
const SETTINGS = {
  full_attention: { rope_theta: DEFAULTS.theta, partial_rotary_factor: 0.5 },
  sliding_attention: { rope_theta: LOCAL_THETA, partial_rotary_factor: 1 },
};

/** Gates are one number a head, or one an element, as published models say. */
function gatesHeads(config: Fields): boolean {
  const kinds = new Set([config.raw('gating') ?? true, config.raw('gating_types') ?? []].flat());
  const byElement = [...kinds].some((kind) => kind === 'per-element' || kind === 'per_element');
  const odd = [...kinds].find(
    (kind) => ![true, 'per-head', 'per_head', 'per-element', 'per_element'].includes(kind as string),
  );
  if (odd !== undefined) config.refuse('gating', 'true, per-head or per-element', odd);
  if (byElement && [...kinds].some((kind) => kind === 'per-head' || kind === 'per_head'))
    config.refuse('gating_types', 'gates of one kind in all layers');
  return !byElement;
}

/** Query heads of each layer. */
function headsOf(config: Fields, { heads, layers }: DecoderSpec): readonly number[] {
  return config.raw('num_attention_heads_per_layer') == null
    ? Array<number>(layers).fill(heads)
    : config.integers('num_attention_heads_per_layer', layers, LIMITS.heads);
}

/** Laguna: layers of several numbers of heads, gates that softplus makes, and experts beside a shared block. */
export const laguna = gatedFamily({
  family: 'laguna',
  defaults: DEFAULTS,
  // transformers reads the share that each kind of layer rotates, and ignores one beside these.
  prepare: (config) => config.with({ partial_rotary_factor: undefined }).withDefaults({ rope_parameters: SETTINGS }),
  decoder(decoder, config) {
    refuseOthers(config);
    const sliding = slidingLayers(config, decoder.layers, () => false);
    const window = config.integerOrNull('sliding_window', { min: 0, max: LIMITS.window.max }, 512) || null;
    const own = headsOf(config, decoder);
    const heads = Math.max(...own);
    const rotated = rotaryTables(config, decoder.headDim, decoder.contextTokens, DEFAULTS.theta, LOCAL_THETA, 1);
    const normed = withQueryKeyNorm(decoder);
    return withExperts(
      {
        ...normed,
        heads,
        contextTokens: rotated.contextTokens,
        position: rotary('halves', rotated.dims, ...rotated.tables),
        attention: { ...normed.attention, gate: true, gateActivation: 'softplus', gatesHeads: gatesHeads(config) },
        layerSpecs: windowedLayers(config, sliding, window, 1).map((layer, index) => {
          const { [index]: count = heads } = own;
          return count === heads ? layer : { ...layer, heads: count };
        }),
      },
      {
        count: config.integer('num_experts', LIMITS.experts, 256),
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
        width: config.integer('moe_intermediate_size', LIMITS.feedForward, 512),
        router: {
          score: 'sigmoid',
          normalised: true,
          scale: config.number('moe_routed_scaling_factor', LIMITS.factor, 1),
          choiceBias: true,
        },
        shared: { size: config.integer('shared_expert_intermediate_size', LIMITS.feedForward, 512), gate: false },
        dense: listedDenseLayers(config, decoder.layers) ?? ((layer) => layer === 0),
      },
    );
  },
  names: (config) => ({
    ...HEAD_NORMS,
    'q_gate.weight': 'self_attn.g_proj.weight',
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  }),
  weights: (decoder) => mixtureWeights(decoder, NAMES),
});

function refuseOthers(config: Fields): void {
  requireFalse(config, 'moe_apply_router_weight_on_input', 'swa_attention_sink_enabled');
  if (!config.boolean('moe_router_use_sigmoid', true)) config.refuse('moe_router_use_sigmoid', 'true');
  if (config.number('moe_router_logit_softcapping', LIMITS.softCap, 0) !== 0)
    config.refuse('moe_router_logit_softcapping', '0: logits of experts that are capped are not supported');
}
