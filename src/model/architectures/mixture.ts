import type { DecoderSpec, ExpertsSpec, RouterSpec } from '../DecoderSpec.js';
import type { LayerRole } from './weightRoles.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { LLAMA_LAYER } from './gatedDecoder.js';
import type { TensorIndex } from './TensorIndex.js';
import { experts, fusedExperts, GGUF_GATED, GGUF_LAYER, ggufExperts, type Names, weights } from './weights.js';

/** A configuration's settings of a mixture of experts. */
export interface Mixture {
  readonly count: number;
  readonly perToken: number;
  /** Inner width of one expert. */
  readonly width: number;
  readonly router?: RouterSpec;
  readonly shared?: ExpertsSpec['shared'];
  /** Layers without experts; their inner width is that of the decoder's own feed-forward block. */
  readonly dense?: (layer: number) => boolean;
}

/** A decoder of gated blocks with experts in their place. */
export function withExperts(decoder: DecoderSpec, mixture: Mixture): DecoderSpec {
  const { count, perToken, width, router, shared, dense = () => false } = mixture;
  const layerSpecs = decoder.layerSpecs.map((layer, index) => (dense(index) ? { ...layer, dense: true } : layer));
  const withDense = layerSpecs.some((layer) => layer.dense === true);
  return {
    ...decoder,
    feedForwardSize: width,
    layerSpecs,
    feedForward: {
      ...decoder.feedForward,
      kind: 'experts',
      experts: {
        count,
        perToken,
        ...(router && { router }),
        ...(shared && shared.size > 0 && { shared }),
        ...(withDense && { denseSize: decoder.feedForwardSize }),
      },
    },
  };
}

/** DeepSeek V3's router: logistic scores, a bias that counts in the choice alone, groups by their two best. */
export function sigmoidRouter(config: Fields, normalised = true): RouterSpec {
  const groups = config.integerOrNull('n_group', LIMITS.experts, 1) ?? 1;
  return {
    score: 'sigmoid',
    normalised: config.boolean('norm_topk_prob', normalised),
    scale: config.number('routed_scaling_factor', LIMITS.factor, 1),
    choiceBias: true,
    ...(groups > 1 && {
      groups: {
        count: groups,
        perToken: config.integerOrNull('topk_group', LIMITS.experts, 1) ?? 1,
        score: 'best-two' as const,
      },
    }),
  };
}

/** A softmax of which the best few are not divided by their sum. */
export const SOFTMAX_AS_IT_IS: RouterSpec = { score: 'softmax', normalised: false, scale: 1, choiceBias: false };

/** Layers of a Qwen mixture without experts: those that are listed, and all but every so-manieth. */
export function denseQwenLayers(config: Fields, layers: number): (layer: number) => boolean {
  const step = config.integer('decoder_sparse_step', LIMITS.layers, 1);
  const listed = config.raw('mlp_only_layers') ?? [];
  if (!Array.isArray(listed) || listed.length > layers)
    return config.refuse('mlp_only_layers', `a list of some of the ${layers} layers`);
  const dense = new Set(
    listed.map((layer: unknown, index) =>
      typeof layer === 'number' && Number.isSafeInteger(layer)
        ? layer
        : config.refuse(`mlp_only_layers[${index}]`, 'the number of a layer', layer),
    ),
  );
  return (layer) => dense.has(layer) || (layer + 1) % step !== 0;
}

/** Layers without experts as `mlp_layer_types` lists them; undefined where it does not. */
export function listedDenseLayers(config: Fields, layers: number): ((layer: number) => boolean) | undefined {
  const types = config.raw('mlp_layer_types');
  if (types === undefined || types === null) return undefined;
  if (!Array.isArray(types) || types.length !== layers || !types.every((type) => type === 'dense' || type === 'sparse'))
    return config.refuse('mlp_layer_types', `dense or sparse for each of ${layers} layers`);
  return (layer) => types[layer] === 'dense';
}

/** Tells whether a layer has experts, or none. */
const sparse =
  (decoder: DecoderSpec) =>
  (layer: number): boolean =>
    decoder.layerSpecs[layer]?.dense !== true;
const dense =
  (decoder: DecoderSpec) =>
  (layer: number): boolean =>
    decoder.layerSpecs[layer]?.dense === true;

const only = (sources: readonly WeightSource[], layers: (layer: number) => boolean): WeightSource[] =>
  sources.map((source) => ({ ...source, layers }));

/** The names of a mixture's tensors, after a layer's prefix. */
export interface MixtureNames {
  readonly router: string;
  readonly choiceBias?: string;
  readonly expert: (role: 'gate' | 'up' | 'down', expert: number) => string;
  /** The names of `gate`, `up` and `down` of the block beside the experts. */
  readonly shared?: (role: 'gate' | 'up' | 'down') => string;
  readonly sharedGate?: string;
  /** The names in layers without experts. Default: `mlp.gate_proj.weight`, and so on. */
  readonly dense?: (role: 'gate' | 'up' | 'down') => string;
  /**
   * All experts are in one tensor a role, gate and up in one, as transformers 5 has them; `turned`: with a row for each
   * input. Default: not.
   */
  readonly stacked?: { readonly gateUp: string; readonly down: string; readonly turned?: boolean };
}

/** Names that most mixtures have. */
export const MLP_EXPERTS: MixtureNames = {
  router: 'mlp.gate.weight',
  choiceBias: 'mlp.gate.e_score_correction_bias',
  expert: (role, expert) => `mlp.experts.${expert}.${role}_proj.weight`,
  shared: (role) => `mlp.shared_experts.${role}_proj.weight`,
};

/**
 * Experts by themselves, as most checkpoints have them, or stacked, as the tensors are. Of stacked ones some have a row
 * for each input: such whose shape is not the other one (Qwen3-VL).
 */
export function storedExperts(
  tensors: TensorIndex | undefined,
  hiddenSize: number,
  names: MixtureNames = MLP_EXPERTS,
): MixtureNames {
  const stacked = { gateUp: 'mlp.experts.gate_up_proj', down: 'mlp.experts.down_proj' };
  const found = tensors?.names().find((name) => name.endsWith(`.${stacked.gateUp}`));
  if (found === undefined) return names;
  const turned = tensors?.find(found)?.shape[2] !== hiddenSize;
  return { ...names, stacked: { ...stacked, turned } };
}

/** The weights of a mixture in safetensors, and of the layers without experts. */
export function mixtureWeights(decoder: DecoderSpec, names: MixtureNames = MLP_EXPERTS): WeightSource[] {
  const { count = 0, router, shared } = decoder.feedForward.experts ?? {};
  const three = (name: (role: 'gate' | 'up' | 'down') => string): Names<LayerRole> => ({
    'gate.weight': name('gate'),
    'up.weight': name('up'),
    'down.weight': name('down'),
  });
  const withExperts = [
    ...weights(LLAMA_LAYER, { 'router.weight': names.router }),
    ...(router?.choiceBias === true && names.choiceBias !== undefined
      ? weights(LLAMA_LAYER, { 'router.choice_bias': names.choiceBias }, { reshaped: true })
      : []),
    ...(names.stacked
      ? fusedExperts(decoder, `${LLAMA_LAYER}${names.stacked.gateUp}`, `${LLAMA_LAYER}${names.stacked.down}`).map(
          (source) => ({ ...source, ...(names.stacked?.turned === true && { turned: true }) }),
        )
      : experts(count, (role, expert) => `${LLAMA_LAYER}${names.expert(role, expert)}`)),
    ...(shared && names.shared ? weights(LLAMA_LAYER, three(names.shared)) : []),
    ...(shared?.gate === true && names.sharedGate !== undefined
      ? weights(LLAMA_LAYER, { 'shared_gate.weight': names.sharedGate }, { reshaped: true })
      : []),
  ];
  return [
    ...only(withExperts, sparse(decoder)),
    ...only(weights(LLAMA_LAYER, three(names.dense ?? ((role) => `mlp.${role}_proj.weight`))), dense(decoder)),
  ];
}

/** llama.cpp's numbers of `expert_gating_func`. */
const GATING: Readonly<Record<number, RouterSpec['score']>> = { 1: 'softmax', 2: 'sigmoid' };

/** Settings that a family's GGUF files leave to llama.cpp. */
export interface GgufMixture {
  /** Where `expert_gating_func` and `expert_weights_norm` do not say. */
  readonly score: RouterSpec['score'];
  readonly normalised: boolean;
  /** The block beside the experts has a gate. */
  readonly sharedGate?: boolean;
}

/** The mixture that GGUF metadata describe. */
export function ggufMixture(decoder: DecoderSpec, model: GgufModel, otherwise: GgufMixture): DecoderSpec {
  const { fields, tensors } = model;
  const none = { min: 0, max: LIMITS.experts.max };
  const gating = fields.integer('expert_gating_func', { min: 0, max: 100 }, 0);
  const score = gating === 0 ? otherwise.score : GATING[gating];
  if (score === undefined) return fields.refuse('expert_gating_func', '1 (softmax) or 2 (sigmoid)');
  const leading = fields.integer('leading_dense_block_count', { min: 0, max: LIMITS.layers.max }, 0);
  const step = fields.integer('interleave_moe_layer_step', LIMITS.layers, 1);
  const width = fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward, decoder.feedForwardSize);
  const scale = fields.number('expert_weights_scale', { min: 0, max: LIMITS.factor.max }, 0);
  const groups = fields.integer('expert_group_count', none, 1);
  const firstSparse = `blk.${Math.min(leading, decoder.layers - 1)}.`;
  return withExperts(decoder, {
    count: fields.integer('expert_count', LIMITS.experts),
    perToken: fields.integer('expert_used_count', LIMITS.experts),
    width,
    router: {
      score,
      normalised: fields.boolean('expert_weights_norm', otherwise.normalised),
      scale: scale === 0 ? 1 : scale,
      choiceBias: tensors.has(`${firstSparse}exp_probs_b.bias`),
      ...(groups > 1 && {
        groups: {
          count: groups,
          perToken: fields.integer('expert_group_used_count', LIMITS.experts, 1),
          score: 'best-two' as const,
        },
      }),
    },
    ...(tensors.has(`${firstSparse}ffn_up_shexp.weight`) && {
      shared: {
        // The tensor itself says: metadata may have the width of one of several blocks, or nothing.
        size: tensors.find(`${firstSparse}ffn_up_shexp.weight`)?.shape[0] ?? 0,
        gate: otherwise.sharedGate ?? false,
      },
    }),
    dense: (layer) => layer < leading || (layer + 1) % step !== 0,
  });
}

/** The weights of a mixture in GGUF, and of the layers without experts. */
export function ggufMixtureWeights(decoder: DecoderSpec, { tensors }: GgufModel): WeightSource[] {
  const { count = 0, router, shared } = decoder.feedForward.experts ?? {};
  const firstSparse = Math.max(
    0,
    decoder.layerSpecs.findIndex((layer) => layer.dense !== true),
  );
  const withExperts = [
    ...weights(GGUF_LAYER, { 'router.weight': 'ffn_gate_inp.weight' }),
    ...(router?.choiceBias === true ? weights(GGUF_LAYER, { 'router.choice_bias': 'exp_probs_b.bias' }) : []),
    ...(tensors.has(`blk.${firstSparse}.ffn_gate_up_exps.weight`)
      ? fusedExperts(decoder, `${GGUF_LAYER}ffn_gate_up_exps.weight`, `${GGUF_LAYER}ffn_down_exps.weight`)
      : ggufExperts(tensors, count, firstSparse)),
    ...(shared
      ? weights(GGUF_LAYER, {
          'gate.weight': 'ffn_gate_shexp.weight',
          'up.weight': 'ffn_up_shexp.weight',
          'down.weight': 'ffn_down_shexp.weight',
        })
      : []),
    ...(shared?.gate === true
      ? weights(GGUF_LAYER, { 'shared_gate.weight': 'ffn_gate_inp_shexp.weight' }, { reshaped: true })
      : []),
  ];
  return [...only(withExperts, sparse(decoder)), ...only(weights(GGUF_LAYER, GGUF_GATED), dense(decoder))];
}
