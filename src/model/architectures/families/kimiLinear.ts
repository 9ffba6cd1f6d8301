import type { DecoderSpec } from '../../DecoderSpec.js';
import type { LayerRole } from '../weightRoles.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_BASES, LLAMA_LAYER } from '../gatedDecoder.js';
import { ggufAttendingLayers } from '../ggufMixedLayers.js';
import { latentConfig, latentGguf, latentGgufWeights, latentWeights, type LatentDefaults } from '../latentDecoder.js';
import { layersByMixer, mixedLayers } from '../mixers.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  listedDenseLayers,
  mixtureWeights,
  sigmoidRouter,
  type MixtureNames,
} from '../mixture.js';
import { requireSilu } from '../specs.js';
import type { TensorIndex } from '../TensorIndex.js';
import { GGUF_LAYER, weights, type Names } from '../weights.js';
import { withDeepExperts } from './deepseek.js';

const DEFAULTS: LatentDefaults = {
  vocabulary: 163840,
  hidden: 2304,
  feedForward: 9216,
  layers: 27,
  heads: 32,
  context: 1048576,
  epsilon: 1e-5,
  theta: 10000,
  rank: 512,
  queryRank: null,
  rotated: 64,
  plain: 128,
  value: 128,
};
const EXPERTS = { width: 1024, count: 256, perToken: 8, shared: 1, dense: 1 };
export const KIMI_TAPS = { min: 1, max: 64 };

/** Fields that transformers calls otherwise than the checkpoints. */
const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  max_position_embeddings: ['model_max_length'],
  norm_topk_prob: ['moe_renormalize'],
  n_group: ['num_expert_group'],
  n_routed_experts: ['num_experts', 'num_local_experts'],
  num_experts_per_tok: ['num_experts_per_token'],
  n_shared_experts: ['num_shared_experts'],
};

const MOE = 'block_sparse_moe.';
const EXPERT_NAMES = { gate: 'w1', up: 'w3', down: 'w2' } as const;
const NAMES: MixtureNames = {
  router: `${MOE}gate.weight`,
  choiceBias: `${MOE}gate.e_score_correction_bias`,
  expert: (role, expert) => `${MOE}experts.${expert}.${EXPERT_NAMES[role]}.weight`,
  shared: (role) => `${MOE}shared_experts.${role}_proj.weight`,
};

/** Kimi Linear: layers of Kimi's delta attention among ones of latent attention without positions, and experts. */
export const kimiLinear: Family = {
  modelTypes: ['kimi_linear'],
  fromConfig(given, tensors) {
    const config = withKimiNames(given);
    refuseOthers(config);
    const latent = latentConfig(
      'kimi_linear',
      config.with({ rope_parameters: undefined, rope_scaling: undefined }),
      DEFAULTS,
      'halves',
    );
    const own = config.child('linear_attn_config');
    const sizes = own ?? config;
    const width = sizes.integer(own ? 'head_dim' : 'linear_head_dim', LIMITS.headDim, 128);
    const decoder = withDeepExperts(
      {
        ...latent,
        recurrent: {
          taps: sizes.integer(own ? 'short_conv_kernel_size' : 'linear_conv_kernel_dim', KIMI_TAPS, 4),
          delta: {
            ...keyHeadsOf(sizes.integer(own ? 'num_heads' : 'linear_num_heads', LIMITS.heads, 32), width),
            byKey: { rank: width, least: 0 },
          },
        },
        layerSpecs: unrotated(
          mixedLayers(config, latent.layers, ['linear_attention'], 'delta-rule', attendingLayers(own, latent.layers)),
        ),
      },
      config,
      sigmoidRouter(config.withDefaults({ routed_scaling_factor: 2.446 })),
      EXPERTS,
      listedDenseLayers(config, latent.layers),
    );
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...latentWeights(
          decoder,
          config.boolean('tie_word_embeddings', false),
          config.boolean('attention_bias', false),
        ),
        ...kimiDeltaWeights(),
        ...mixtureWeights(
          decoder,
          prefixesBlocks(tensors) ? { ...NAMES, dense: (role) => `${MOE}${role}_proj.weight` } : NAMES,
        ),
      ],
    };
  },
  gguf: {
    architecture: 'kimi-linear',
    describe(whole) {
      const { model, attends } = ggufAttendingLayers(whole);
      const latent = latentGguf('kimi_linear', model, 'halves');
      const layerSpecs = unrotated(layersByMixer(latent.layers, 'delta-rule', attends));
      const first = layerSpecs.findIndex(({ mixer }) => mixer === 'delta-rule');
      const rank = model.tensors.find(`blk.${first}.ssm_f_a.weight`)?.shape[0] ?? 0;
      const decoder = ggufMixture(
        {
          ...latent,
          layerSpecs,
          ...(first >= 0 && {
            recurrent: {
              taps: model.fields.integer('ssm.conv_kernel', KIMI_TAPS),
              decay: 'negated' as const,
              delta: {
                ...keyHeadsOf(latent.heads, model.fields.integer('kda.head_dim', LIMITS.headDim)),
                byKey: { rank, least: 0 },
              },
            },
          }),
        },
        model,
        { score: 'sigmoid', normalised: true },
      );
      return {
        decoder,
        weights: [...latentGgufWeights(decoder, model), ...ggufDeltaWeights(), ...ggufMixtureWeights(decoder, model)],
      };
    },
  },
};

/** Blocks without experts have the experts' prefix where transformers saved them. */
function prefixesBlocks(tensors: TensorIndex | undefined): boolean {
  return tensors?.hasInLayers(`${MOE}gate_proj.weight`) === true;
}

type DeltaSizes = NonNullable<NonNullable<DecoderSpec['recurrent']>['delta']>;

/** Sizes of the delta rule where all heads are alike. */
export const keyHeadsOf = (heads: number, width: number): DeltaSizes => ({
  keyHeads: heads,
  valueHeads: heads,
  keyDim: width,
  valueDim: width,
});

const unrotated = (layerSpecs: DecoderSpec['layerSpecs']): DecoderSpec['layerSpecs'] =>
  layerSpecs.map((layer) => ({ ...layer, rotaryTable: 'none' }));

/** The configuration by the names that transformers has for what checkpoints call otherwise. */
export function withKimiNames(config: Fields): Fields {
  const found = Object.entries(OTHER_NAMES).flatMap(([key, others]) =>
    others.filter((other) => !config.has(key) && config.has(other)).map((other) => [key, other]),
  );
  return config.renamed(Object.fromEntries(found) as Record<string, string>);
}

function refuseOthers(config: Fields): void {
  requireSilu(config);
  if (!config.boolean('mla_use_nope', true)) config.refuse('mla_use_nope', 'true');
  if (config.string('moe_router_activation_func', 'sigmoid') !== 'sigmoid')
    config.refuse('moe_router_activation_func', 'sigmoid');
  if (config.integer('moe_layer_freq', LIMITS.layers, 1) !== 1) config.refuse('moe_layer_freq', '1');
}

/** Which layers attend: those that a checkpoint lists, counted from 1; else every fourth but the first. */
function attendingLayers(own: Fields | undefined, layers: number): (layer: number) => boolean {
  const listed = own?.raw('full_attn_layers');
  if (own === undefined || listed === undefined) return (layer) => layer > 0 && layer % 4 === 0;
  const isNumber = (layer: unknown): boolean =>
    Number.isInteger(layer) && Number(layer) >= 1 && Number(layer) <= layers;
  if (!Array.isArray(listed) || !listed.every(isNumber))
    return own.refuse('full_attn_layers', `a list of layers from 1 to ${layers}`);
  const attending = new Set<unknown>(listed);
  const others = own.raw('kda_layers');
  const rest = Array.from({ length: layers }, (_, layer) => layer + 1).filter((layer) => !attending.has(layer));
  if (
    others !== undefined &&
    !(Array.isArray(others) && new Set(others).size === rest.length && rest.every((layer) => others.includes(layer)))
  )
    return own.refuse('kda_layers', 'the layers that full_attn_layers does not list');
  return (layer) => attending.has(layer + 1);
}

const CONVOLVED = ['q', 'k', 'v'];
const TWO_PRODUCTS = {
  'delta_gate_in.weight': 'g_a_proj.weight',
  'delta_gate.weight': 'g_b_proj.weight',
  'delta_decay_in.weight': 'f_a_proj.weight',
  'delta_decay.weight': 'f_b_proj.weight',
};

/** Weights of the delta rule. @param made names of what gates and decays are made by. Default: two products each */
export function kimiDeltaWeights(made: Names<LayerRole> = TWO_PRODUCTS): WeightSource[] {
  const layer = `${LLAMA_LAYER}self_attn.`;
  return [
    ...weights(layer, {
      'delta_q.weight': 'q_proj.weight',
      'delta_k.weight': 'k_proj.weight',
      'delta_v.weight': 'v_proj.weight',
      ...made,
      'delta_beta.weight': 'b_proj.weight',
      'delta_norm.weight': 'o_norm.weight',
      'delta_out.weight': 'o_proj.weight',
      'decay.bias': 'dt_bias',
    }),
    ...weights(layer, { 'decay.log': 'A_log' }, { reshaped: true }),
    ...weights(layer, { 'delta_conv.weight': '{piece}_conv1d.weight' }, { reshaped: true, pieces: CONVOLVED }),
  ];
}

function ggufDeltaWeights(): WeightSource[] {
  return [
    ...weights(GGUF_LAYER, {
      'delta_q.weight': 'attn_q.weight',
      'delta_k.weight': 'attn_k.weight',
      'delta_v.weight': 'attn_v.weight',
      'delta_gate_in.weight': 'ssm_g_a.weight',
      'delta_gate.weight': 'ssm_g_b.weight',
      'delta_decay_in.weight': 'ssm_f_a.weight',
      'delta_decay.weight': 'ssm_f_b.weight',
      'delta_beta.weight': 'ssm_beta.weight',
      'delta_norm.weight': 'ssm_norm.weight',
      'delta_out.weight': 'attn_output.weight',
      'decay.bias': 'ssm_dt.bias',
    }),
    ...weights(GGUF_LAYER, { 'decay.negated': 'ssm_a' }, { reshaped: true }),
    ...weights(GGUF_LAYER, { 'delta_conv.weight': 'ssm_conv1d_{piece}.weight' }, { reshaped: true, pieces: CONVOLVED }),
  ];
}
