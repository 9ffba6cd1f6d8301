import type { DecoderSpec } from '../DecoderSpec.js';
import { rotaryFields } from './configRotary.js';
import type { GgufModel } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';

const SCALE = { min: -1e3, max: 1e3 };

/** Queries of all layers scaled by their position, as `llama_4_scaling_beta` among the rotary settings says. */
export function withScaledQueries(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const settings = rotaryFields(config);
  const factor = settings.numberOrNull('llama_4_scaling_beta', SCALE);
  if (factor === null || factor === 0) return decoder;
  const period = settings.integer('original_max_position_embeddings', LIMITS.context, decoder.contextTokens);
  return scaled(decoder, factor, period, 0, () => true);
}

/**
 * The same by GGUF's `attention.temperature_scale`.
 * @param otherwise of a family that scales them in any case, whether a converter has written it or not
 */
export function ggufScaledQueries(
  decoder: DecoderSpec,
  { fields }: Pick<GgufModel, 'fields'>,
  otherwise = 0,
): DecoderSpec {
  const factor = fields.number('attention.temperature_scale', SCALE, otherwise);
  if (factor === 0) return decoder;
  const original = fields.integer('rope.scaling.original_context_length', LIMITS.context, decoder.contextTokens);
  const period = fields.integer('attention.temperature_length', LIMITS.context, original);
  return scaled(decoder, factor, period, 0, () => true);
}

/** Queries of some layers scaled by their position. */
export function scaled(
  decoder: DecoderSpec,
  factor: number,
  period: number,
  first: 0 | 1,
  scales: (layer: number) => boolean,
): DecoderSpec {
  return {
    ...decoder,
    attention: { ...decoder.attention, queryScale: { factor, period, first } },
    layerSpecs: decoder.layerSpecs.map((layer, index) => (scales(index) ? { ...layer, scalesQueries: true } : layer)),
  };
}
