import type { GgufModel } from './Family.js';
import { LIMITS } from './Fields.js';

/**
 * Which layers of a GGUF file attend: those of which `attention.head_count_kv` says that they have heads of keys and
 * values. With the model as it is without the others, whose number is 0.
 */
export function ggufAttendingLayers(model: GgufModel): {
  readonly model: GgufModel;
  readonly attends: (layer: number) => boolean;
} {
  const { fields } = model;
  const given = fields.raw('attention.head_count_kv');
  if (!Array.isArray(given) && !ArrayBuffer.isView(given)) return { model, attends: () => true };
  const counts = Array.from(given as ArrayLike<unknown>);
  const layers = fields.integer('block_count', LIMITS.layers);
  if (counts.length < layers) fields.refuse('attention.head_count_kv', `an entry for each of ${layers} layers`);
  const attending = counts.slice(0, layers).filter((count) => count !== 0);
  return {
    model: {
      ...model,
      fields: fields.with({ 'attention.head_count_kv': attending.length === 0 ? undefined : attending }),
    },
    attends: (layer) => counts[layer] !== 0,
  };
}
