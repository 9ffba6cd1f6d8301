import { UsageError } from '../errors/UsageError.js';
import { hasOwnHeads } from './DecoderSpec.js';
import type { ModelSource } from './ModelSource.js';
import type { TensorBinding } from './TensorBinding.js';

/** Some of a model's layers that follow one another. */
export interface LayerRange {
  /** Number of the first one, from 0. */
  readonly first: number;
  readonly count: number;
}

const EMBEDDING: readonly string[] = [
  'token_embedding',
  'position_embedding',
  'embedding_projection',
  'embedding_norm.weight',
  'embedding_norm.bias',
];

/** Tells whether a tensor that is no layer's stands before the first layer; others are after the last. */
export function embeds({ role }: Pick<TensorBinding, 'role'>): boolean {
  return EMBEDDING.includes(role);
}

/**
 * A part of a model: some of its layers, with the embedding where the first layer is among them, and the final norm and
 * the head where the last one is. A head that is tied to the embedding takes it along. Layers keep their numbers. Pure.
 *
 * @throws UsageError for layers that the model does not have
 */
export function partOf(source: ModelSource, { first, count }: LayerRange): ModelSource {
  const { decoder, bindings } = source;
  const { layers } = decoder;
  if (!(
    Number.isSafeInteger(first) &&
    Number.isSafeInteger(count) &&
    first >= 0 &&
    count >= 1 &&
    first + count <= layers
  )) {
    throw new UsageError(`layers: found first ${first}, count ${count}, expected some of the model's ${layers} layers`);
  }
  if (count === layers) return source;
  const aside = decoder.feedForward.experts?.aside === true;
  if ((decoder.layerInputs ?? 0) > 0 || decoder.layerScale === true || aside || decoder.layerSpecs.some(hasOwnHeads))
    throw new UsageError(
      `layers: found some of those of a model of the family ${decoder.family}, expected all: its layers differ in their heads, or read other layers' keys, experts or embeddings`,
    );
  const begins = first === 0;
  const samples = first + count === layers;
  const tied = !bindings.some(({ role }) => role === 'head.weight');
  const needed = (binding: TensorBinding): boolean => {
    const { role, layer } = binding;
    if (layer >= 0) return layer >= first && layer < first + count;
    return embeds(binding) ? begins || (samples && tied && role === 'token_embedding') : samples;
  };
  return {
    ...source,
    decoder: {
      ...decoder,
      layers: count,
      layerSpecs: decoder.layerSpecs.slice(first, first + count),
      part: { firstLayer: first, modelLayers: layers },
    },
    bindings: bindings.filter(needed),
  };
}
