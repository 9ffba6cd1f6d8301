import type { RowErrorCode } from '../../errors/RowError.js';
import type { BadRow } from '../../Row.js';
import { formatBytes } from '../../units.js';
import { checkBeginning } from './foreignBytes.js';
import { lineWithoutRow } from './parseRow.js';
import type { RowSource } from './RowFormat.js';

/** One line of a file of lines. */
export interface Line {
  /** From 1; every line counts, blank ones too. */
  readonly number: number;
  /**
   * The line without its end (LF or CRLF), and without a byte order mark; undefined where it is longer than the limit.
   */
  readonly bytes: Buffer | undefined;
  /** Offset of the first byte after the line and its end. */
  readonly end: number;
  /** False for a last line that no LF ends. */
  readonly terminated: boolean;
}

const LF = 0x0a;
const CR = 0x0d;

/**
 * Cuts a stream of bytes into lines. Holds one line and one chunk at a time; of a line longer than `maxLineBytes` it
 * holds nothing and skips to the line's end.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array | string>,
  maxLineBytes: number,
): AsyncGenerator<Line, void, undefined> {
  let number = 0;
  let offset = 0;
  /** The parts of the current line that stood in earlier chunks; dropped once the line is too long. */
  let parts: Buffer[] = [];
  let length = 0;

  const add = (part: Buffer): void => {
    length += part.length;
    offset += part.length;
    if (length <= maxLineBytes) parts.push(part);
    else parts = [];
  };
  const finish = (terminated: boolean): Line => {
    number += 1;
    const whole = length > maxLineBytes ? undefined : parts.length === 1 ? parts[0] : Buffer.concat(parts);
    parts = [];
    length = 0;
    return { number, bytes: whole && trimEnds(whole, number === 1), end: offset, terminated };
  };

  for await (const chunk of chunks) {
    const bytes =
      typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, from)) {
      add(bytes.subarray(from, at));
      offset += 1;
      from = at + 1;
      yield finish(true);
    }
    // A copy, so that a line's first few bytes do not keep a whole chunk alive, and a source may reuse its buffer.
    if (from < bytes.length) add(Buffer.from(bytes.subarray(from)));
  }
  if (length > 0) yield finish(false);
}

function trimEnds(line: Buffer, first: boolean): Buffer {
  const start = first && line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf ? 3 : 0;
  const end = line.length > start && line[line.length - 1] === CR ? line.length - 1 : line.length;
  return line.subarray(start, end);
}

/** Nothing but spaces, tabs and carriage returns. */
export function isBlank(line: Buffer): boolean {
  for (const byte of line) {
    if (byte !== 0x20 && byte !== 0x09 && byte !== CR) return false;
  }
  return true;
}

// What formats of one row a line have in common.

/**
 * The lines of a source that are not blank.
 * @throws JobFileError where it begins as no text does
 */
export async function* filledLines(source: RowSource, maxLineBytes: number): AsyncGenerator<Line, void, undefined> {
  for await (const line of readLines(source.bytes(), maxLineBytes)) {
    if (line.number === 1 && line.bytes) checkBeginning(source, line.bytes);
    if (line.bytes === undefined || !isBlank(line.bytes)) yield line;
  }
}

export async function countLines(source: RowSource, maxLineBytes: number): Promise<number> {
  let lines = 0;
  for await (const line of readLines(source.bytes(), maxLineBytes)) {
    if (line.bytes === undefined || !isBlank(line.bytes)) lines += 1;
  }
  return lines;
}

export function tooLong(line: number, maxLineBytes: number): BadRow {
  return lineWithoutRow(
    line,
    'too-long',
    `line ${line}: found more than ${formatBytes(maxLineBytes)}, expected at most that`,
  );
}

export function noText(line: number, code: RowErrorCode): BadRow {
  return lineWithoutRow(line, code, `line ${line}: found bytes that are no UTF-8, expected UTF-8`);
}
