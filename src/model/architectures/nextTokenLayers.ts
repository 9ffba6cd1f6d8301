import type { DecoderSpec } from '../DecoderSpec.js';
import type { GgufModel } from './Family.js';
import { LIMITS } from './Fields.js';

/**
 * GGUF counts layers that guess tokens further on among a model's layers, after the others. They are left out, with
 * their tensors.
 */
export function skipNextTokenLayers(decoder: DecoderSpec, { fields, tensors }: GgufModel): DecoderSpec {
  const more = fields.integer('nextn_predict_layers', { min: 0, max: LIMITS.layers.max }, 0);
  if (more === 0) return decoder;
  const layers = decoder.layers - more;
  if (layers < 1) return fields.refuse('nextn_predict_layers', `fewer than the ${decoder.layers} layers`);
  for (const name of tensors.unused()) {
    const layer = /^blk\.(\d+)\./.exec(name)?.[1];
    if (layer !== undefined && Number(layer) >= layers) tensors.take(name);
  }
  return { ...decoder, layers, layerSpecs: decoder.layerSpecs.slice(0, layers) };
}
