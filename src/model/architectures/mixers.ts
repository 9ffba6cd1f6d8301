import type { DecoderSpec, LayerSpec, Mixer } from '../DecoderSpec.js';
import type { GlobalRole, LayerRole } from '../TensorBinding.js';
import type { Fields } from './Fields.js';

/** Roles that layers with one of these mixers have alone, by how they begin. */
const ROLES_OF_MIXERS: readonly (readonly [beginning: RegExp, mixers: readonly Mixer[]])[] = [
  [/^([qkvo]|q_norm|k_norm|q_gate|q_down|q_down_norm|latent|latent_norm|k_up|v_up)\.|^sinks$/, ['attention']],
  [/^conv(_in|_out)?\./, ['short-convolution']],
  [/^delta_/, ['delta-rule']],
  [/^state_/, ['state-space']],
  [/^scan_/, ['selective-scan']],
  [/^lightning_/, ['lightning-attention']],
  [/^decay\./, ['delta-rule', 'state-space', 'selective-scan']],
];

/** Roles of feed-forward blocks, by how they begin. */
const BLOCK_ROLES = /^(norm2|post_norm2|gate|up|down|router|shared_gate|expert)\./;

/** Tells whether a role is of layers' feed-forward blocks. */
export function isOfBlock(role: GlobalRole | LayerRole): boolean {
  return BLOCK_ROLES.test(role);
}

/** Tells whether a layer has a weight of that role. */
export function hasRole(
  { mixer = 'attention', mixerOnly = false, stateBeside = false }: Partial<LayerSpec>,
  role: GlobalRole | LayerRole,
): boolean {
  if (mixerOnly && isOfBlock(role)) return false;
  if (stateBeside && /^(state_|decay\.)/.test(role)) return true;
  return ROLES_OF_MIXERS.find(([beginning]) => beginning.test(role))?.[1].includes(mixer) ?? true;
}

/** Elements of a state space's projections: what is convolved, what its heads come to, and both with the time steps. */
export function stateSpaceWidths({ recurrent }: Pick<DecoderSpec, 'recurrent'>): {
  readonly heads: number;
  readonly values: number;
  readonly convolved: number;
  readonly projected: number;
} {
  const { heads = 0, headDim = 0, stateDim = 0, groups = 0 } = recurrent?.stateSpace ?? {};
  const values = heads * headDim;
  const convolved = values + 2 * groups * stateDim;
  return { heads, values, convolved, projected: convolved + values + heads };
}

/**
 * Layers by `layer_types`, some of which remember a state.
 * @param names what configurations call these @param isFull which others there are where it does not say
 */
export function mixedLayers(
  config: Fields,
  layers: number,
  names: readonly string[],
  mixer: Mixer,
  isFull: (layer: number) => boolean,
): LayerSpec[] {
  const given = config.raw('layer_types') ?? config.raw('layers_block_type');
  if (given === undefined || given === null) return layersByMixer(layers, mixer, isFull);
  if (!Array.isArray(given) || given.length !== layers)
    return config.refuse('layer_types', `an array of ${layers}, one entry a layer`);
  const attends = given.map((type: unknown, layer) => {
    if (type === 'full_attention' || type === 'attention') return true;
    return typeof type === 'string' && names.includes(type)
      ? false
      : config.refuse(`layer_types[${layer}]`, `full_attention or ${names.join(', ')}`, type);
  });
  return layersByMixer(layers, mixer, (layer) => attends[layer] === true);
}

/** Layers that attend, and others with this mixer. */
export function layersByMixer(count: number, mixer: Mixer, attends: (layer: number) => boolean): LayerSpec[] {
  return Array.from({ length: count }, (_, layer) => ({
    window: 0,
    rotaryTable: 0,
    ...(!attends(layer) && { mixer }),
  }));
}
