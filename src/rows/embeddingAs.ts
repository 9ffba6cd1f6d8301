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
