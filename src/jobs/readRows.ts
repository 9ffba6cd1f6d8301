import { isUtf8 } from 'node:buffer';
import { ReadStream } from 'node:fs';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkText, checkWhole } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { isIterable } from '../arguments/isIterable.js';
import { oneOf, text, whole } from '../arguments/memberChecks.js';
import type { RowErrorCode } from '../errors/RowError.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { UsageError } from '../errors/UsageError.js';
import { ROW_LIMITS } from '../model/files/limits.js';
import type { RowInput } from '../Row.js';
import { formatBytes } from '../units.js';
import { bytesOf } from './bytesOf.js';
import { fileFailure } from './fileErrors.js';
import { lineWithoutRow, parseRow } from './parseRow.js';
import { isBlank, readLines } from './readLines.js';
import { unchangedBytes } from './unchangedBytes.js';

/** A path, or bytes: a Node Readable, a web ReadableStream, any async iterable of chunks. */
export type ByteSource = string | AsyncIterable<Uint8Array | string>;

export interface ReadRowsOptions {
  /** `jsonl` (the default): one JSON object a line. `text`: a line is a prompt. */
  readonly format?: 'jsonl' | 'text';
  /** Keep the fields that are not ours, for the result's `row`. Default false. */
  readonly carryFields?: boolean;
  /** A longer line becomes a bad row and is never held in memory. Bytes; default 64 MiB. */
  readonly maxLineBytes?: number;
  /** What errors call the source. Default: the path, or `input`. */
  readonly name?: string;
}

const CHECKS: Readonly<Record<keyof ReadRowsOptions, Check>> = { format: oneOf('jsonl', 'text'), carryFields: checkBoolean, maxLineBytes: whole(1), name: text() };

/**
 * Rows from a file or stream of lines, one at a time: holds one line and one chunk, whatever the input's length.
 * Blank lines are skipped; a row without an id gets its line's number from 1, and `duplicate` is false: nobody gave it, so it may be another row's too. A line that is no row becomes a `BadRow` with the
 * reason, never an exception.
 * @throws UsageError at once for a wrong argument; JobFileError, while it is iterated, when the source cannot be read
 */
export function readRows(source: ByteSource, options: ReadRowsOptions = {}): AsyncGenerator<RowInput, void, undefined> {
  checkMembers('options', options, CHECKS);
  const { format = 'jsonl', carryFields = false, maxLineBytes = ROW_LIMITS.lineBytes } = options;
  return rowsOf(openLines(source, maxLineBytes, options.name), format, carryFields, maxLineBytes);
}

async function* rowsOf(lines: ReturnType<typeof readLines>, format: 'jsonl' | 'text', carryFields: boolean, maxLineBytes: number): AsyncGenerator<RowInput, void, undefined> {
  for await (const { number, bytes } of lines) {
    if (bytes === undefined) {
      yield lineWithoutRow(number, 'too-long', `line ${number}: found more than ${formatBytes(maxLineBytes)}, expected at most that`);
    } else if (!isBlank(bytes)) {
      if (!isUtf8(bytes)) {
        const code: RowErrorCode = format === 'text' ? 'invalid-row' : 'invalid-json';
        yield lineWithoutRow(number, code, `line ${number}: found bytes that are no UTF-8, expected UTF-8`);
      } else {
        const line = bytes.toString('utf8');
        yield format === 'text' ? { id: number, duplicate: false, prompt: line } : parseLine(line, number, carryFields);
      }
    }
  }
}

/**
 * The lines of a source, with its failures as JobFileError.
 * @param maxLineBytes of a longer line nothing is held; from 1
 * @param name what errors call the source; default: the path, or `input`
 * @throws UsageError at once for a wrong argument
 */
export function openLines(source: ByteSource, maxLineBytes: number, name?: string): ReturnType<typeof readLines> {
  if (typeof source !== 'string' && !isIterable(source)) throw new UsageError(`source: found ${found(source)}, expected a file's path or an iterable of bytes`);
  checkWhole('maxLineBytes', maxLineBytes, 1);
  if (name !== undefined) checkText('name', name);
  return linesOf(source, maxLineBytes, name);
}

async function* linesOf(source: ByteSource, maxLineBytes: number, name: string | undefined): ReturnType<typeof readLines> {
  const file = name ?? (typeof source === 'string' ? source : 'input');
  try {
    yield* readLines(bytesFrom(source, file), maxLineBytes);
  } catch (error) {
    throw error instanceof SpillwayError ? error : fileFailure(file, 'read', error);
  }
}

function bytesFrom(source: ByteSource, name: string): AsyncIterable<Uint8Array | string> {
  if (typeof source === 'string') return bytesOf(source);
  if (source === process.stdin) return unchangedBytes(source, process.stdin.fd, name);
  return source instanceof ReadStream && source.path ? unchangedBytes(source, String(source.path), name) : source;
}

function parseLine(line: string, number: number, carryFields: boolean): RowInput {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    // V8's message quotes a piece of the line, so it stays short; a stack overflow on deep nesting ends here too.
    return lineWithoutRow(number, 'invalid-json', `line ${number}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return parseRow(value, number, carryFields);
}
