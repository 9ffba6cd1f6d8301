import type { LayerSpec, Mixer } from '../DecoderSpec.js';
import type { Fields } from './Fields.js';

/**
 * Layers by `layer_types`, some of which remember a state.
 * @param name what the configuration calls these @param isFull which others there are where it does not say
 */
export function mixedLayers(
  config: Fields,
  layers: number,
  name: string,
  mixer: Mixer,
  isFull: (layer: number) => boolean,
): LayerSpec[] {
  const given = config.raw('layer_types');
  const attends = { window: 0, rotaryTable: 0 };
  const remembers = { ...attends, mixer };
  if (given === undefined || given === null)
    return Array.from({ length: layers }, (_, layer) => (isFull(layer) ? attends : remembers));
  if (!Array.isArray(given) || given.length !== layers)
    return config.refuse('layer_types', `an array of ${layers}, one entry a layer`);
  return given.map((type: unknown, layer) => {
    if (type === 'full_attention') return attends;
    return type === name ? remembers : config.refuse(`layer_types[${layer}]`, `full_attention or ${name}`, type);
  });
}
