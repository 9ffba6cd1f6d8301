import type { DecoderSpec, LayerSpec, Mixer } from '../DecoderSpec.js';
import type { Fields } from './Fields.js';

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
