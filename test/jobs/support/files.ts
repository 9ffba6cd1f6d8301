import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from '@jest/globals';
import type { RowResult } from '../../../src/Row.js';

/** A folder for the tests of one file, removed after them. */
export function temporaryFolder(): (name: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (name) => join(folder, name);
}

export function writeLines(path: string, lines: readonly unknown[]): void {
  writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
}

/** The lines of an output, each of which must be a whole one. */
export function readResults(path: string): RowResult[] {
  const text = readFileSync(path, 'utf8');
  if (text !== '' && !text.endsWith('\n')) throw new Error(`${path} ends in a torn line`);
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RowResult);
}

/** The results of a journal, whose first line says whose it is; or of an output that is its own. */
export function readJournal(path: string): RowResult[] {
  return readResults(path).filter((line) => !('run' in line));
}

export function byIndex(results: readonly RowResult[]): RowResult[] {
  return [...results].sort((a, b) => a.index - b.index);
}

export async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}
