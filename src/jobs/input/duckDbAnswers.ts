import { setImmediate } from 'node:timers/promises';
import { inTurns } from '../../collections/inTurns.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { PARQUET_LIMITS } from '../../model/files/limits.js';
import { heldBytes } from '../../rows/heldBytes.js';
import { ANSWER_BYTES, ANSWER_PARTS, ANSWER_ROWS, type Answer, type Request } from './duckDbMessages.js';
import type { OpenQuery } from './OpenQuery.js';
import { bytesOfPart, partsOf, type ValuePart } from './valueParts.js';

/**
 * Bytes of values after which what nobody needs any more is looked for: V8 does not know that chunks of DuckDB's take
 * more than a few bytes, and would let any number of them lie.
 */
const GARBAGE_BYTES = 2 ** 23;

/** Lets go of what nobody needs any more. Natives are let go of in the turn after that. */
export async function collect(): Promise<void> {
  const { gc } = globalThis as { readonly gc?: () => void };
  gc?.();
  await setImmediate();
}

/** The answers about a query, the header first, each when it is asked for. @throws what reading the query throws */
export async function* answersOf(query: OpenQuery): AsyncGenerator<Answer, void, Request> {
  const { header } = query;
  const all = [...header.keys()];
  yield { kind: 'header', header };
  let rows: (readonly unknown[])[] = [];
  let bytes = 0;
  let garbage = 0;
  const answer = (then?: 'long' | 'too-large'): Answer => {
    const full = { kind: 'rows', rows, then } as const;
    rows = [];
    bytes = 0;
    return full;
  };
  try {
    for await (const chunk of query.chunks()) {
      for (const row of chunk) {
        if (garbage >= GARBAGE_BYTES) {
          garbage = 0;
          await collect();
        }
        const made = inTurns(row.values(all, PARQUET_LIMITS.rowBytes));
        const values = made instanceof Promise ? await made : made;
        if (values === undefined) {
          garbage += PARQUET_LIMITS.rowBytes;
          let asked: Request = yield answer('too-large');
          while (typeof asked === 'object' && 'columns' in asked)
            asked = yield { kind: 'values', values: await inTurns(row.values(asked.columns, asked.most)) };
          continue;
        }
        const held = heldBytes(values, ANSWER_BYTES);
        const isLong = held >= ANSWER_BYTES;
        garbage += isLong ? GARBAGE_BYTES : held;
        if (isLong) {
          yield answer('long');
          yield* inParts(values);
          continue;
        }
        rows.push(values);
        bytes += held;
        if (bytes >= ANSWER_BYTES || rows.length >= ANSWER_ROWS) yield answer();
      }
      if (garbage >= GARBAGE_BYTES / 4) {
        garbage = 0;
        await collect();
      }
    }
  } catch (error) {
    // The rows before it come first.
    if (rows.length > 0) yield answer();
    throw error;
  }
  yield answer();
  yield { kind: 'end' };
}

function* inParts(values: readonly unknown[]): Generator<Answer, void, Request> {
  let parts: ValuePart[] = [];
  let bytes = 0;
  for (const part of partsOf(values)) {
    parts.push(part);
    bytes += bytesOfPart(part);
    if (bytes < ANSWER_BYTES && parts.length < ANSWER_PARTS) continue;
    yield { kind: 'parts', parts, last: false };
    parts = [];
    bytes = 0;
  }
  yield { kind: 'parts', parts, last: true };
}

/** An error as it is told. */
export function toldError(error: unknown): Answer {
  if (error instanceof JobFileError)
    return { kind: 'error', file: error.file, words: error.message.slice(error.file.length + 2) };
  const words = error instanceof Error ? error.message : String(error);
  return { kind: 'error', file: error instanceof SpillwayError ? undefined : 'SQL', words };
}
