import type { NativeHeadResult } from '../../bindings/Addon.js';
import { GRAMMAR_PLACES } from '../../bindings/Grammars.js';
import type { RowId } from '../grid/Square.js';
import type { HeadOutput, SampledToken } from '../grid/Task.js';

/**
 * Gives what the head found, by row instead of by native handle.
 * @param firstLayer number in the model of the first layer that the runtime has
 */
export function headOutput(result: NativeHeadResult, rowOf: (handle: number) => RowId, firstLayer: number): HeadOutput {
  const sampled = new Map<RowId, SampledToken>();
  const embedded = new Map([...result.embedded].map((index, nth) => [index, nth]));
  const width = embedded.size > 0 ? result.embeddings.length / embedded.size : 0;
  let [nextTop, nextFailure, nextForced] = [0, 0, 0];
  result.rows.forEach((handle, i) => {
    const count = result.topCounts[i] ?? 0;
    const top = Array.from({ length: count }, (_, rank) => ({
      token: result.topTokens[nextTop + rank] ?? 0,
      logprob: result.topLogprobs[nextTop + rank] ?? NaN,
    }));
    nextTop += count;
    const token = result.tokens[i] ?? 0;
    const nth = embedded.get(i);
    const notFinite = token < -1 ? { layer: firstLayer - 2 - token } : {};
    const certainty = result.certainties[i] ?? NaN;
    const place = GRAMMAR_PLACES[result.places[i] ?? -1];
    const forced = result.forcedCounts[i] ?? 0;
    sampled.set(rowOf(handle), {
      token: Math.max(token, 0),
      logprob: result.logprobs[i] ?? NaN,
      top,
      ...(!Number.isNaN(certainty) && { certainty }),
      ...(token < 0 && { notFinite }),
      ...(place !== undefined && {
        place,
        ...(place === 'failed' && { failure: result.failures[nextFailure++] ?? '' }),
      }),
      ...(forced > 0 && { forced: Array.from(result.forcedTokens.subarray(nextForced, (nextForced += forced))) }),
      ...(nth !== undefined && { embedding: result.embeddings.slice(nth * width, (nth + 1) * width) }),
    });
  });
  const scored = new Map<RowId, Float32Array>();
  let nextScore = 0;
  for (let i = 0; i < result.scored.length; i += 3) {
    const count = result.scored[i + 2] ?? 0;
    scored.set(rowOf(result.scored[i] ?? -1), result.scores.slice(nextScore, nextScore + count));
    nextScore += count;
  }
  return { sampled, scored };
}
