import type { LayerSpec } from '../DecoderSpec.js';
import { LIMITS, type Fields } from './Fields.js';

/**
 * Which layers see a sliding window only: by `layer_types` where the configuration has them, else by the family's older
 * rule.
 */
export function slidingLayers(config: Fields, layers: number, isSliding: (layer: number) => boolean): boolean[] {
  const types = config.raw('layer_types');
  if (types === undefined || types === null) return Array.from({ length: layers }, (_, layer) => isSliding(layer));
  if (!Array.isArray(types) || types.length !== layers)
    return config.refuse('layer_types', `an array of ${layers}, one entry a layer`);
  return types.map((type: unknown, layer) => {
    if (type === 'sliding_attention') return true;
    return type === 'full_attention'
      ? false
      : config.refuse(`layer_types[${layer}]`, 'full_attention or sliding_attention', type);
  });
}

/**
 * `attention.sliding_window_pattern` of GGUF is a period, or one entry a layer, true (or 1) where the layer slides;
 * none slides without a window.
 */
export function ggufSlidingLayers(fields: Fields, layers: number, window: number, pattern: number): boolean[] {
  if (window === 0) return Array<boolean>(layers).fill(false);
  const given = fields.raw('attention.sliding_window_pattern');
  if (Array.isArray(given) || ArrayBuffer.isView(given)) {
    const entries = Array.from(given as unknown as ArrayLike<unknown>);
    if (entries.length < layers)
      fields.refuse('attention.sliding_window_pattern', `an entry for each of ${layers} layers`);
    return entries.slice(0, layers).map((entry) => entry === true || entry === 1);
  }
  const period = fields.integer('attention.sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, pattern);
  return Array.from({ length: layers }, (_, layer) => (layer + 1) % period !== 0);
}

/** Layers from which of them slide; sliding layers may have a rotary table of their own. */
export function windowedLayers(
  config: Fields,
  sliding: readonly boolean[],
  window: number | null,
  slidingTable = 0,
): LayerSpec[] {
  if (window === null && sliding.includes(true))
    config.refuse('sliding_window', 'a window, for there are sliding layers', null);
  return sliding.map((slides) =>
    slides ? { window: window ?? 0, rotaryTable: slidingTable } : { window: 0, rotaryTable: 0 },
  );
}

/** The same layers, of which some do not rotate queries and keys. */
export function unrotated(layers: readonly LayerSpec[], rotates: (layer: number) => boolean): LayerSpec[] {
  return layers.map((layer, index) => (rotates(index) ? layer : { ...layer, rotaryTable: 'none' }));
}

/** Qwen 2 and 3: layers from `max_window_layers` on slide, if `use_sliding_window` says so. */
export function qwenLayers(config: Fields, layers: number): LayerSpec[] {
  // transformers writes 0 where there is none.
  const given = config.integerOrNull('sliding_window', { min: 0, max: LIMITS.window.max }, 4096) || null;
  const window = config.boolean('use_sliding_window', false) ? given : null;
  const first = config.integer('max_window_layers', { min: 0, max: 2 ** 31 - 1 }, 28);
  return windowedLayers(
    config,
    slidingLayers(config, layers, (layer) => window !== null && layer >= first),
    window,
  );
}
