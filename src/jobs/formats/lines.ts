import type { RowErrorCode } from '../../errors/RowError.js';
import type { BadRow } from '../../Row.js';
import { formatBytes } from '../../units.js';
import { lineWithoutRow } from '../parseRow.js';
import { isBlank, readLines, type Line } from '../readLines.js';
import type { RowSource } from './RowFormat.js';

// What formats of one row a line have in common.

/** The lines of a source that are not blank. */
export async function* filledLines(source: RowSource, maxLineBytes: number): AsyncGenerator<Line, void, undefined> {
  for await (const line of readLines(source.bytes(), maxLineBytes)) {
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
