import { createReadStream } from 'node:fs';
import { isObject } from '../../arguments/isObject.js';
import { isWithin } from '../../arguments/NumberRange.js';
import { jsonMemory, takesAtMost } from '../../arguments/jsonMemory.js';
import { Turns } from '../../collections/Turns.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { BEGIN_ANEW, readFailure } from '../../files/fileErrors.js';
import { readRegularStart } from '../../files/specialFiles.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { formatBytes } from '../../units.js';
import type { ResultLine } from '../formats/formatResult.js';
import { boundHeapGrowth } from '../../rows/heapGrowth.js';
import { SAMPLES } from '../../rows/rowFields.js';
import { readLines } from '../formats/readLines.js';
import { DoneRows } from '../record/DoneRows.js';

/** Where the results of a run are, one JSON object a line. */
export interface Journal {
  readonly path: string;
  /**
   * The run that it belongs to, which its first line names; undefined where it is the output itself, which has no such
   * line.
   */
  readonly run: string | undefined;
}

/** A first line is far shorter. */
const MOST_BYTES = 1024;

/** The first line of a journal beside its output: whatever lies there otherwise is of another run. */
export function journalHeader(run: string): string {
  return `${JSON.stringify({ format: 'spillway-rows', run })}\n`;
}

/**
 * The run that a file says that it is a journal of; undefined for one that says none. @throws JobFileError for what is
 * no regular file
 */
export function runOfJournal(path: string): string | undefined {
  const [line] = (readRegularStart(path, MOST_BYTES, 'rows of output') ?? '').split('\n', 1);
  try {
    const value: unknown = JSON.parse(line ?? '');
    return isObject(value) && value['format'] === 'spillway-rows' && typeof value['run'] === 'string'
      ? value['run']
      : undefined;
  } catch {
    return undefined;
  }
}

/** The contents that an output holds already. */
export interface ScannedJournal {
  /** Rows that need not be done again. */
  readonly done: DoneRows;
  /** Rows with an error in the output, whether they count as done or not. */
  readonly failed: number;
  /** End of the last whole line. */
  readonly bytes: number;
  /** True where rows that need not be done again stand in the order of the input. */
  readonly inOrder: boolean;
}

/** A line of a journal, read. */
interface ScannedLine {
  readonly index: number;
  readonly sample: number | undefined;
  readonly id: string | number;
  readonly failed: boolean;
  readonly result: ResultLine;
}

/**
 * Reads an output that an earlier run left: streamed, four bytes a row in memory. What stands after the last LF is a
 * torn line and not counted. Nothing is changed in the file.
 * @param retryErrors error rows are not done
 * @throws JobFileError for a whole line that is no result, and for an index that stands twice; InterruptedError once
 * the signal fires
 */
export async function scanJournal(
  journal: Journal,
  retryErrors: boolean,
  signal?: AbortSignal,
): Promise<ScannedJournal> {
  const done = new DoneRows();
  const retried = new DoneRows();
  let failed = 0;
  let bytes = journal.run === undefined ? 0 : journalHeader(journal.run).length;
  let inOrder = true;
  let before: Pick<ScannedLine, 'index' | 'sample'> | undefined;
  for await (const line of journalLines(journal, { signal })) {
    const again = line.failed && retryErrors;
    if (!again) {
      if (before && compareLines(before, line) > 0) inOrder = false;
      before = line;
    }
    if (!(again ? retried : done).add(line.index, line.id, line.sample)) {
      const sample = line.sample === undefined ? '' : `, sample ${line.sample}`;
      throw new JobFileError(
        journal.path,
        `line ${line.number}: index ${line.index}${sample} stands twice, expected each row once; ${BEGIN_ANEW}`,
      );
    }
    if (line.failed) failed += 1;
    bytes = line.end;
  }
  return { done, failed, bytes, inOrder };
}

/** The order of the input, and of a row's samples. */
export function compareLines(
  a: Pick<ScannedLine, 'index' | 'sample'>,
  b: Pick<ScannedLine, 'index' | 'sample'>,
): number {
  return a.index - b.index || (a.sample ?? -1) - (b.sample ?? -1);
}

/** A line with a result, where it stands, and as it stands there. */
export interface JournalLine extends ScannedLine {
  readonly number: number;
  readonly bytes: Buffer;
  /** After its LF. */
  readonly end: number;
}

/**
 * The whole lines of a journal that hold results.
 * @param pieces what the file holds; default: read ahead, a MiB at a time
 * @throws JobFileError for one that is no result; InterruptedError once the signal fires
 */
export async function* journalLines(
  { path, run }: Journal,
  {
    pieces = createReadStream(path, { highWaterMark: 2 ** 20 }),
    signal,
  }: { readonly pieces?: AsyncIterable<Uint8Array>; readonly signal?: AbortSignal | undefined } = {},
): AsyncGenerator<JournalLine, void, undefined> {
  try {
    for await (const { number, bytes, end, terminated } of readLines(pieces, ROW_LIMITS.resultBytes)) {
      if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      if (!terminated) return;
      if (run !== undefined && number === 1) continue;
      if (bytes === undefined || (!takesAtMost(bytes.length, ROW_LIMITS.resultBytes) && (await isTooLarge(bytes))))
        throw new JobFileError(
          path,
          `line ${number}: found a line of more than ${formatBytes(ROW_LIMITS.resultBytes)}, or of more in memory, expected at most that of a result; earlier versions wrote longer ones, with their log-probabilities; ${BEGIN_ANEW}`,
        );
      const result = parseResult(bytes.toString('utf8'));
      if (result === undefined) {
        throw new JobFileError(
          path,
          `line ${number}: found something else than a result, expected a row of output with id, index and finishReason; mend the line, or ${BEGIN_ANEW}`,
        );
      }
      yield { ...result, number, bytes, end };
    }
  } catch (error) {
    throw readFailure(path, error);
  }
}

/** Tells whether a line, which may be anybody's, would take too much when it is read. */
async function isTooLarge(bytes: Buffer): Promise<boolean> {
  boundHeapGrowth();
  const turns = new Turns();
  for (const heap of jsonMemory(bytes)) {
    if (heap > ROW_LIMITS.resultBytes) return true;
    if (turns.due) await turns.give();
  }
  await turns.give();
  return false;
}

function parseResult(text: string): ScannedLine | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { id, index, sample, finishReason, error, label, scores, embedding, chunks } = value;
  if (typeof id !== 'string' && typeof id !== 'number') return undefined;
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) return undefined;
  if (sample !== undefined && !isSample(sample)) return undefined;
  // Only what was generated has a reason for its end.
  if (
    typeof finishReason !== 'string' &&
    [error, label, scores, embedding, chunks].every((answer) => answer === undefined)
  )
    return undefined;
  if (chunks !== undefined && !(Array.isArray(chunks) && chunks.every(isObject))) return undefined;
  return {
    id,
    index,
    sample,
    failed: typeof finishReason === 'string' ? finishReason === 'error' : error !== undefined,
    result: value as unknown as ResultLine,
  };
}

function isSample(value: unknown): value is number {
  return typeof value === 'number' && isWithin(value + 1, SAMPLES);
}
