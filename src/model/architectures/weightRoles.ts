import type { DecoderSpec, LayerSpec, Mixer } from '../DecoderSpec.js';
import { stateSpaceWidths } from './mixers.js';

/** [outputs, inputs] of a matrix, [elements] of a vector. */
type Shape = readonly [number] | readonly [number, number];
type Roles = Readonly<Record<string, (sizes: Sizes) => Shape>>;
type Sizes = ReturnType<typeof sizesOf>;

// The weights that the decoder asks for, by role, and their shapes. Matrices are row-major.

const hiddenVector = ({ hidden }: Sizes): Shape => [hidden];
const hiddenSquare = ({ hidden }: Sizes): Shape => [hidden, hidden];

const GLOBAL_ROLES = {
  token_embedding: ({ vocabulary, embedding }) => [vocabulary, embedding],
  position_embedding: ({ positions, embedded }) => [positions, embedded],
  type_embedding: ({ tokenTypes, embedded }) => [tokenTypes, embedded],
  'embedding_norm.weight': ({ embedded }) => [embedded],
  'embedding_norm.bias': ({ embedded }) => [embedded],
  relative_bias: ({ buckets, decoderHeads }) => [buckets, decoderHeads],
  distance_embedding: ({ span, hidden }) => [2 * span, hidden], // of disentangled attention
  'distance_norm.weight': hiddenVector,
  'distance_norm.bias': hiddenVector,
  embedding_projection: ({ hidden, embedding }) => [hidden, embedding], // OPT project_in
  'embedding_projection.bias': hiddenVector,
  'stream_in.1': hiddenSquare,
  'stream_in.2': hiddenSquare,
  'stream_in.3': hiddenSquare,
  'stream_out.1': hiddenSquare,
  'stream_out.2': hiddenSquare,
  'stream_out.3': hiddenSquare,
  output_projection: ({ hidden, embedding }) => [embedding, hidden], // OPT project_out
  'final_norm.weight': hiddenVector,
  'final_norm.bias': hiddenVector,
  'head.weight': ({ vocabulary, embedding }) => [vocabulary, embedding], // absent when tied to token_embedding
  'head.bias': ({ vocabulary }) => [vocabulary],
} satisfies Roles;

/** The roles that layers with one mixer have alone. */
const MIXER_ROLES = {
  attention: {
    'q.weight': ({ queries, queryInputs }) => [queries, queryInputs],
    'q.bias': ({ queries }) => [queries],
    'k.weight': ({ keys, hidden }) => [keys, hidden],
    'k.bias': ({ keys }) => [keys],
    'v.weight': ({ values, hidden }) => [values, hidden],
    'v.bias': ({ values }) => [values],
    'o.weight': ({ hidden, attended }) => [hidden, attended],
    'o.bias': hiddenVector,
    'q_norm.weight': ({ queryNorm }) => [queryNorm], // of a head, or of all of them
    'q_norm.bias': ({ queryNorm }) => [queryNorm],
    'k_norm.weight': ({ keyNorm }) => [keyNorm],
    'k_norm.bias': ({ keyNorm }) => [keyNorm],
    'q_gate.weight': ({ gates, hidden }) => [gates, hidden],
    sinks: ({ heads }) => [heads],
    'q_down.weight': ({ latent, hidden }) => [latent.queryRank, hidden], // of latent attention, as are
    'q_down.bias': ({ latent }) => [latent.queryRank],
    'q_down_norm.weight': ({ latent }) => [latent.queryRank],
    'latent.weight': ({ latent, hidden }) => [latent.rank + latent.rotated, hidden],
    'latent.bias': ({ latent }) => [latent.rank + latent.rotated],
    'latent_norm.weight': ({ latent }) => [latent.rank],
    'k_up.weight': ({ decoderHeads, latent }) => [decoderHeads * latent.rank, latent.plain],
    'v_up.weight': ({ decoderHeads, latent }) => [decoderHeads * latent.value, latent.rank],
    // Queries and keys of distances, of disentangled attention with products of their own.
    'q_distance.weight': ({ keys, hidden }) => [keys, hidden],
    'q_distance.bias': ({ keys }) => [keys],
    'k_distance.weight': ({ keys, hidden }) => [keys, hidden],
    'k_distance.bias': ({ keys }) => [keys],
  },
  'short-convolution': {
    'conv.weight': ({ hidden, taps }) => [hidden * taps],
    'conv.bias': hiddenVector,
    'conv_in.weight': ({ hidden }) => [3 * hidden, hidden], // B, C and x
    'conv_out.weight': hiddenSquare,
  },
  'delta-rule': {
    'delta_conv.weight': ({ delta, taps }) => [delta.channels * taps],
    'delta_norm.weight': ({ delta }) => [delta.valueDim],
    'delta_in.weight': ({ delta, hidden }) => [delta.channels, hidden], // queries, keys and values
    'delta_q.weight': ({ delta, hidden }) => [delta.keys, hidden], // the same, apart
    'delta_k.weight': ({ delta, hidden }) => [delta.keys, hidden],
    'delta_v.weight': ({ delta, hidden }) => [delta.values, hidden],
    'delta_gate_in.weight': ({ delta, hidden }) => [delta.rank, hidden],
    'delta_decay_in.weight': ({ delta, hidden }) => [delta.rank, hidden],
    'delta_gate.weight': ({ delta, hidden }) => [delta.values, delta.rank || hidden],
    'delta_beta.weight': ({ delta, hidden }) => [delta.valueHeads, hidden],
    'delta_decay.weight': ({ delta, hidden }) => [delta.decays, delta.rank || hidden],
    'delta_out.weight': ({ delta, hidden }) => [hidden, delta.values],
  },
  'state-space': {
    'state_conv.weight': ({ space, taps }) => [space.convolved * taps],
    'state_conv.bias': ({ space }) => [space.convolved],
    state_skip: ({ space }) => [space.heads],
    'state_norm.weight': ({ space }) => [space.values],
    'state_in.weight': ({ space, hidden }) => [space.projected, hidden], // what is convolved, gates and time steps
    'state_in.bias': ({ space }) => [space.projected],
    'state_out.weight': ({ space, hidden }) => [hidden, space.values],
    'state_out.bias': hiddenVector,
  },
  'selective-scan': {
    'scan_conv.weight': ({ scan, taps }) => [scan.channels * taps],
    'scan_conv.bias': ({ scan }) => [scan.channels],
    scan_skip: ({ scan }) => [scan.channels],
    'scan_in.weight': ({ scan, hidden }) => [2 * scan.channels, hidden], // what is convolved, and gates
    'scan_in.bias': ({ scan }) => [2 * scan.channels],
    // Of time steps, and what states are written and read by.
    'scan_parts.weight': ({ scan }) => [scan.rank + 2 * scan.stateDim, scan.channels],
    'scan_step_norm.weight': ({ scan }) => [scan.rank],
    'scan_written_norm.weight': ({ scan }) => [scan.stateDim],
    'scan_read_norm.weight': ({ scan }) => [scan.stateDim],
    'scan_step.weight': ({ scan }) => [scan.channels, scan.rank],
    'scan_out.weight': ({ scan, hidden }) => [hidden, scan.channels],
    'scan_out.bias': hiddenVector,
  },
  'lightning-attention': {
    'lightning_in.weight': ({ lightning, hidden }) => [3 * lightning, hidden], // each head's query, key and value
    'lightning_gate.weight': ({ lightning, hidden }) => [lightning, hidden],
    'lightning_norm.weight': ({ lightning }) => [lightning],
    'lightning_out.weight': ({ lightning, hidden }) => [hidden, lightning],
  },
} satisfies Readonly<Record<Mixer, Roles>>;

const FORGETTING: readonly Mixer[] = ['delta-rule', 'state-space', 'selective-scan'];
const DECAY_ROLES = {
  'decay.log': ({ rates }) => [rates],
  'decay.negated': ({ rates }) => [rates],
  'decay.bias': ({ decayBiases }) => [decayBiases],
} satisfies Roles;

/** The roles of feed-forward blocks; `expert.N.*` stand for one expert of a mixture. */
const BLOCK_ROLES = {
  'norm2.weight': hiddenVector, // before the block or, residual `post`, after it
  'norm2.bias': hiddenVector,
  'post_norm2.weight': hiddenVector, // residual `sandwich` or `branch`
  'gate.weight': ({ inner, hidden }) => [inner, hidden],
  'gate.bias': ({ inner }) => [inner],
  'up.weight': ({ inner, hidden }) => [inner, hidden],
  'up.bias': ({ inner }) => [inner],
  'down.weight': ({ hidden, inner }) => [hidden, inner],
  'down.bias': hiddenVector,
  'router.weight': ({ routed, hidden }) => [routed, hidden],
  'router.bias': ({ routed }) => [routed],
  'router.choice_bias': ({ routed }) => [routed],
  'shared_gate.weight': ({ hidden }) => [1, hidden],
} satisfies Roles;

const OTHER_ROLES = {
  'norm1.weight': hiddenVector,
  'norm1.bias': hiddenVector,
  'post_norm1.weight': hiddenVector,
  'beside_out.weight': ({ space, hidden }) => [hidden, space.values], // of a state space beside attention
  'beside_out.bias': hiddenVector,
  'stream_norm.weight': hiddenVector, // of streams, as are
  stream_router: ({ streams, hidden }) => [streams.count * hidden],
  stream_predict: ({ streams }) => [streams.count ** 3],
  stream_correct: ({ streams }) => [streams.count ** 2],
  stream_scale: hiddenVector,
  'bypass_in.weight': ({ streams, hidden }) => [streams.bypassRank, hidden],
  'bypass_out.weight': ({ streams, hidden }) => [hidden, streams.bypassRank],
  'bypass_norm.weight': hiddenVector,
  'router_norm.weight': hiddenVector, // of a mixture apart, as are
  'experts_norm.weight': hiddenVector,
  'post_experts_norm.weight': hiddenVector,
  'post_block_norm.weight': hiddenVector,
  expert_scale: ({ experts }) => [experts],
  input_embedding: ({ inputTokens, layerInputs }) => [inputTokens, layerInputs], // what a layer gets of a token, as are
  'input_projection.weight': ({ layerInputs, hidden }) => [layerInputs, hidden],
  'input_gate.weight': ({ layerInputs, hidden }) => [layerInputs, hidden],
  'input_norm.weight': ({ layerInputs }) => [layerInputs],
  'input_out.weight': ({ hidden, layerInputs }) => [hidden, layerInputs],
  'input_post_norm.weight': hiddenVector,
  layer_scale: () => [1],
} satisfies Roles;

export type GlobalRole = keyof typeof GLOBAL_ROLES | `pooled.${number}.${'weight' | 'bias'}`;
type BlockRole = keyof typeof BLOCK_ROLES;
export type LayerRole =
  | { [Name in Mixer]: keyof (typeof MIXER_ROLES)[Name] }[Mixer]
  | keyof typeof DECAY_ROLES
  | BlockRole
  | keyof typeof OTHER_ROLES
  | `expert.${number}.${'gate' | 'up' | 'down'}.${'weight' | 'bias'}`;

const SHAPES = new Map(
  [GLOBAL_ROLES, ...Object.values<Roles>(MIXER_ROLES), DECAY_ROLES, BLOCK_ROLES, OTHER_ROLES].flatMap((roles: Roles) =>
    Object.entries(roles),
  ),
);
const MIXERS_OF_ROLES = new Map<string, readonly string[]>([
  ...Object.entries<Roles>(MIXER_ROLES).flatMap(([mixer, roles]) =>
    Object.keys(roles).map((role) => [role, [mixer]] as const),
  ),
  ...Object.keys(DECAY_ROLES).map((role) => [role, FORGETTING] as const),
]);

/** Tells whether a role is of layers' feed-forward blocks. */
export function isOfBlock(role: GlobalRole | LayerRole): boolean {
  return role in BLOCK_ROLES || role.startsWith('expert.');
}

/** Tells whether a layer has a weight of that role. */
export function hasRole(
  { mixer = 'attention', mixerOnly = false, stateBeside = false }: Partial<LayerSpec>,
  role: GlobalRole | LayerRole,
): boolean {
  if (mixerOnly && isOfBlock(role)) return false;
  const mixers = MIXERS_OF_ROLES.get(role);
  return mixers === undefined || mixers.includes(mixer) || (stateBeside && mixers.includes('state-space'));
}

/**
 * The shape that the decoder needs for a role.
 * @param layer of a role of layers
 */
export function roleShape(decoder: DecoderSpec, role: GlobalRole | LayerRole, layer: LayerSpec | undefined): Shape {
  const shape = SHAPES.get(role);
  if (shape !== undefined) return shape(sizesOf(decoder, layer));
  const [, number, part] = /^pooled\.(\d+)\.(weight|bias)$/.exec(role) ?? [];
  if (number !== undefined) return pooledShape(decoder, Number(number), part === 'weight');
  // expert.N.gate, up, down
  const dense: DecoderSpec = { ...decoder, feedForward: { ...decoder.feedForward, kind: 'gated' } };
  return roleShape(dense, role.replace(/^expert\.\d+\./, '') as BlockRole, layer);
}

/** The sizes that shapes are made of. */
function sizesOf(decoder: DecoderSpec, layer: LayerSpec | undefined) {
  const { hiddenSize: hidden, vocabularySize: vocabulary, attention, recurrent, position, embedding } = decoder;
  const { experts } = decoder.feedForward;
  const headDim = layer?.headDim ?? decoder.headDim;
  const heads = layer?.heads ?? decoder.heads;
  const kvHeads = layer?.kvHeads ?? decoder.kvHeads;
  const keys = kvHeads * headDim;
  const valueOfHead = attention.valueDim ?? headDim;
  const latent = { rank: 0, queryRank: 0, plain: 0, value: 0, rotated: 0, ...attention.latent };
  const queries = heads * (attention.latent ? latent.plain + latent.rotated : headDim);
  const normsRows = attention.qkNorm === 'row' || attention.qkNorm === 'layer';
  const { keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0, byKey } = recurrent?.delta ?? {};
  const delta = {
    valueHeads,
    valueDim,
    keys: keyHeads * keyDim,
    values: valueHeads * valueDim,
    channels: 2 * keyHeads * keyDim + valueHeads * valueDim,
    decays: valueHeads * (byKey ? keyDim : 1),
    rank: byKey?.rank ?? 0,
  };
  const space = stateSpaceWidths(decoder);
  const scan = recurrent?.scan ?? { channels: 0, stateDim: 0, rank: 0 };
  const lightning = recurrent?.lightning ?? { heads: 0, headDim: 0 };
  const ofMixer = {
    'delta-rule': { rates: valueHeads, decayBiases: delta.decays },
    'selective-scan': { rates: scan.channels * scan.stateDim, decayBiases: scan.channels },
    others: { rates: space.heads, decayBiases: space.heads },
  };
  const mixer = layer?.mixer;
  return {
    hidden,
    vocabulary,
    heads,
    keys,
    queries,
    latent,
    delta,
    space,
    scan,
    ...ofMixer[mixer === 'delta-rule' || mixer === 'selective-scan' ? mixer : 'others'],
    embedding: embedding.size,
    embedded: embedding.factorised === true ? embedding.size : hidden,
    positions: decoder.contextTokens + (position.kind === 'learned' ? position.offset : 0),
    tokenTypes: embedding.tokenTypes ?? 0,
    buckets: attention.relativeBias?.buckets ?? 0,
    span: attention.disentangled?.span ?? 0,
    decoderHeads: decoder.heads,
    queryInputs: latent.queryRank || hidden,
    values: kvHeads * valueOfHead,
    attended: heads * (attention.latent ? latent.value : valueOfHead),
    queryNorm: normsRows ? queries : headDim,
    keyNorm: normsRows ? keys : headDim,
    gates: attention.gatesHeads === true ? heads : queries,
    taps: recurrent?.taps ?? 0,
    lightning: lightning.heads * lightning.headDim,
    streams: decoder.streams ?? { count: 1, bypassRank: 0 },
    inner: innerWidth(decoder, layer),
    experts: experts?.count ?? 0,
    routed: (experts?.count ?? 0) + (experts?.identities ?? 0),
    inputTokens: decoder.layerInputTokens ?? vocabulary,
    layerInputs: decoder.layerInputs ?? 0,
  };
}

function pooledShape({ pooled = [], hiddenSize }: DecoderSpec, at: number, weight: boolean): Shape {
  const layer = pooled[at];
  if (layer === undefined) throw new RangeError(`pooled.${at}: found a role of a layer that the decoder does not have`);
  return weight && layer.kind === 'dense' ? [layer.outputs, pooled[at - 1]?.outputs ?? hiddenSize] : [layer.outputs];
}

/** Inner width of the block that all of a layer's tokens go through. */
function innerWidth({ feedForward, feedForwardSize }: DecoderSpec, layer: LayerSpec | undefined): number {
  const { kind, experts } = feedForward;
  if (kind !== 'experts') return layer?.innerSize ?? feedForwardSize;
  return (layer?.dense === true ? experts?.denseSize : experts?.shared?.size) ?? 0;
}
