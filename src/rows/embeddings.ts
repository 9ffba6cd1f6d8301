import type { EmbeddedAnswer } from '../KeptAnswer.js';
import type { EmbedOptions } from '../Results.js';
import { float32Numbers, float32Of, float32Text } from './float32.js';

/** An embedding in one form, whichever it has: numbers of float32 and their base64 say the same. Pure. */
export function embeddingAs(
  embedding: EmbeddedAnswer['embedding'],
  encoding: NonNullable<EmbedOptions['encoding']>,
): EmbeddedAnswer['embedding'] {
  if (encoding === 'base64')
    return typeof embedding === 'string' ? embedding : float32Text(Float32Array.from(embedding));
  if (typeof embedding !== 'string') return embedding;
  const values = float32Of(embedding);
  if (values === undefined) throw new Error('found an embedding that is no base64 of float32');
  return float32Numbers(values);
}

/**
 * A pooled hidden state as it is handed out: its first dimensions, to a length of 1, in float32. Pure.
 * @param hidden [hiddenSize], finite
 * @returns numbers of 9 significant digits, which are the float32's own; or float32, little-endian, in base64
 */
export function encodedEmbedding(
  hidden: Float32Array,
  {
    dimensions = hidden.length,
    normalize = true,
    encoding = 'float',
  }: Pick<EmbedOptions, 'dimensions' | 'normalize' | 'encoding'>,
): EmbeddedAnswer['embedding'] {
  const cut = hidden.subarray(0, dimensions);
  const length = normalize ? Math.sqrt(cut.reduce((sum, value) => sum + value * value, 0)) : 1;
  // A vector of zeros has no direction.
  const values = cut.map((value) => (length > 0 ? value / length : value));
  return encoding === 'float' ? float32Numbers(values) : float32Text(values);
}
