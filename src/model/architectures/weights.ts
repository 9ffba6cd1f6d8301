import type { DecoderSpec } from '../DecoderSpec.js';
import type { GlobalRole, LayerRole } from './weightRoles.js';
import type { FusedPart, WeightSource } from './Family.js';
import type { TensorIndex } from './TensorIndex.js';

/** Tensor names by role. */
export type Names<Role extends string> = Readonly<Partial<Record<Role, string>>>;

/** The weights of a table of names, each name put after `prefix`. */
export function weights(
  prefix: string,
  names: Names<GlobalRole | LayerRole>,
  options: Pick<WeightSource, 'add' | 'optional' | 'fromLayer' | 'reshaped' | 'pieces' | 'shape'> = {},
): WeightSource[] {
  return Object.entries(names).map(([role, name]) => ({
    role: role as GlobalRole | LayerRole,
    tensor: `${prefix}${name}`,
    ...options,
  }));
}

/**
 * The language-model head. A tied model has none of its own, or a copy of the embeddings: a tensor that is there is the
 * one to use.
 */
export function head(tensor: string, tied: boolean): WeightSource {
  return { role: 'head.weight', tensor, optional: tied };
}

/**
 * Query, key and value rows fused in one tensor. `groups` 1: all q, all k, all v; else per group its q, k and v rows.
 */
export function fusedQueryKeyValue(
  tensor: string,
  { heads, kvHeads, headDim }: { heads: number; kvHeads: number; headDim: number },
  groups: number,
  suffixes: readonly ('weight' | 'bias')[],
  options: Pick<WeightSource, 'optional'> = {},
): WeightSource[] {
  const sizes = [(heads / groups) * headDim, (kvHeads / groups) * headDim, (kvHeads / groups) * headDim];
  return suffixes.flatMap((suffix) =>
    (['q', 'k', 'v'] as const).map((role, index) => ({
      role: `${role}.${suffix}` as const,
      tensor: `${tensor}.${suffix}`,
      part: { groups, sizes, index },
      ...options,
    })),
  );
}

/** Gate and up rows fused in one tensor, the gate first. */
export function fusedGateUp(
  tensor: string,
  feedForwardSize: number,
  suffix: 'weight' | 'bias' = 'weight',
): WeightSource[] {
  return fusedRows(tensor, feedForwardSize, [`gate.${suffix}`, `up.${suffix}`]);
}

/** The same with the gate after. */
export function fusedUpGate(tensor: string, feedForwardSize: number): WeightSource[] {
  return fusedRows(tensor, feedForwardSize, ['up.weight', 'gate.weight']);
}

function fusedRows(tensor: string, size: number, roles: readonly LayerRole[]): WeightSource[] {
  const part = (index: number): FusedPart => ({ groups: 1, sizes: roles.map(() => size), index });
  return roles.map((role, index) => ({ role, tensor, part: part(index) }));
}

/**
 * The experts of a mixture, each in tensors of its own; `name` gives the tensor of a role (`gate`, `up`, `down`) and an
 * expert.
 */
export function experts(count: number, name: (role: 'gate' | 'up' | 'down', expert: number) => string): WeightSource[] {
  return Array.from({ length: count }, (_, expert) =>
    (['gate', 'up', 'down'] as const).map((role): WeightSource => ({
      role: `expert.${expert}.${role}.weight`,
      tensor: name(role, expert),
    })),
  ).flat();
}

/** A mixture's experts stacked in two tensors a layer, rows of gate before those of up. */
export function fusedExperts(
  { feedForward: { experts }, feedForwardSize }: DecoderSpec,
  gateUp: string,
  down: string,
): WeightSource[] {
  const { count = 0 } = experts ?? {};
  return Array.from({ length: count }, (_, index) => [
    ...fusedGateUp(gateUp, feedForwardSize).map((source) => ({
      ...source,
      role: `expert.${index}.${source.role}` as WeightSource['role'],
      slice: { count, index },
    })),
    { role: `expert.${index}.down.weight` as const, tensor: down, slice: { count, index } },
  ]).flat();
}

const GGUF_GLOBAL = { token_embedding: 'token_embd.weight', 'final_norm.weight': 'output_norm.weight' } as const;
const GGUF_ATTENTION = {
  'q.weight': 'attn_q.weight',
  'k.weight': 'attn_k.weight',
  'v.weight': 'attn_v.weight',
  'o.weight': 'attn_output.weight',
} as const;
const GGUF_ATTENTION_BIASES = {
  'q.bias': 'attn_q.bias',
  'k.bias': 'attn_k.bias',
  'v.bias': 'attn_v.bias',
  'o.bias': 'attn_output.bias',
} as const;
export const GGUF_GATED = {
  'gate.weight': 'ffn_gate.weight',
  'up.weight': 'ffn_up.weight',
  'down.weight': 'ffn_down.weight',
} as const;
const GGUF_GATED_BIASES = {
  'gate.bias': 'ffn_gate.bias',
  'up.bias': 'ffn_up.bias',
  'down.bias': 'ffn_down.bias',
} as const;
export const GGUF_LAYER = 'blk.{layer}.';
/** A layer like GPT-2's but for its fused rows. */
export const GGUF_PLAIN_LAYER: Names<LayerRole> = {
  'norm1.weight': 'attn_norm.weight',
  'norm1.bias': 'attn_norm.bias',
  'norm2.weight': 'ffn_norm.weight',
  'norm2.bias': 'ffn_norm.bias',
  'o.weight': 'attn_output.weight',
  'o.bias': 'attn_output.bias',
  'up.weight': 'ffn_up.weight',
  'up.bias': 'ffn_up.bias',
  'down.weight': 'ffn_down.weight',
  'down.bias': 'ffn_down.bias',
};

/**
 * Lists the weights that all GGUF architectures share: embeddings, final norm, and the head, which is tied where there
 * is no tensor for it.
 */
export function ggufGlobals(): WeightSource[] {
  return [...weights('', GGUF_GLOBAL), head('output.weight', true)];
}

/** Attention in tensors of its own each, with the biases that the file happens to have. */
export function ggufAttention(): WeightSource[] {
  return [...weights(GGUF_LAYER, GGUF_ATTENTION), ...weights(GGUF_LAYER, GGUF_ATTENTION_BIASES, { optional: true })];
}

/** A gated feed-forward block, with the biases that the file happens to have. */
export function ggufGated(): WeightSource[] {
  return [...weights(GGUF_LAYER, GGUF_GATED), ...weights(GGUF_LAYER, GGUF_GATED_BIASES, { optional: true })];
}

/** Lists weights that are stacked in one tensor [count, ...] for each of an expert's matrices. */
export function stackedExperts(
  count: number,
  suffix: 'weight' | 'bias',
  source: (role: 'gate' | 'up' | 'down') => Omit<WeightSource, 'role' | 'slice'>,
): WeightSource[] {
  return Array.from({ length: count }, (_, index) =>
    (['gate', 'up', 'down'] as const).map((role): WeightSource => ({
      role: `expert.${index}.${role}.${suffix}`,
      slice: { count, index },
      ...source(role),
    })),
  ).flat();
}

/**
 * The experts of a mixture: stacked in one tensor a role, or, in older files, in one tensor an expert.
 * @param layer one of those with experts
 */
export function ggufExperts(tensors: TensorIndex, count: number, layer = 0): WeightSource[] {
  if (!tensors.has(`blk.${layer}.ffn_gate_exps.weight`) && tensors.has(`blk.${layer}.ffn_gate.0.weight`)) {
    return experts(count, (role, expert) => `${GGUF_LAYER}ffn_${role}.${expert}.weight`);
  }
  return stackedExperts(count, 'weight', (role) => ({ tensor: `${GGUF_LAYER}ffn_${role}_exps.weight` }));
}
