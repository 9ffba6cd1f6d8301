import { PeerError } from '../../errors/engineErrors.js';
import type { DeviceRow } from '../grid/Device.js';
import type { Batch, RowId } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';
import type { BeginMessage } from '../peers/PeerMessage.js';

/**
 * Judges what the engine of the last layers has found for a batch.
 * @param sequenceOf rows that are under way
 * @param model default: nothing is known of it
 * @throws PeerError unless it is what its rows have asked for, all of it and nothing else
 */
export function checkHead(
  { pass, rows }: Batch,
  { sampled, scored }: HeadOutput,
  sequenceOf: (row: RowId) => DeviceRow | undefined,
  model?: BeginMessage['model'],
): void {
  const { vocabularySize = Infinity, hiddenSize } = model ?? {};
  const asked = { sample: 0, score: 0, none: 0 };
  for (const { row, head, tokens } of rows) {
    asked[head]++;
    const wrong = (what: string, expected: string): PeerError =>
      new PeerError(`head: found ${what} for row ${row} in pass ${pass}, expected ${expected}`);
    const [one, scores] = [sampled.get(row), scored.get(row)];
    if (head === 'sample' ? !one : head === 'score' && !scores) throw wrong('nothing', `what it ${head}s`);
    if (head === 'score' && scores && (scores.length > tokens || scores.length < tokens - 1))
      throw wrong(`${scores.length} scores`, `those of ${tokens} tokens`);
    const sequence = sequenceOf(row);
    if (head !== 'sample' || !one || !sequence) continue;
    const { pooling, candidates, logprobs } = sequence;
    const stranger = [one, ...one.top].find(({ token }) => token >= vocabularySize);
    if (stranger) throw wrong(`token ${stranger.token}`, `an id below ${vocabularySize}`);
    const most = candidates?.length ?? Math.max(0, logprobs);
    if (one.top.length > most) throw wrong(`${one.top.length} alternatives`, `at most ${most}`);
    const size = pooling === undefined ? undefined : hiddenSize;
    if (one.embedding?.length !== size)
      throw wrong(
        `an embedding of ${one.embedding?.length ?? 0} numbers`,
        size === undefined ? 'none' : `one of ${size}`,
      );
  }
  if (sampled.size !== asked.sample || scored.size !== asked.score)
    throw new PeerError(
      `head: found ${sampled.size} tokens and ${scored.size} scored rows in pass ${pass}, expected ${asked.sample} and ${asked.score}`,
    );
}
