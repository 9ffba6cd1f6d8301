import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expectedRows } from '../../src/cli/expectedRows.js';
import type { ExpectedRows } from '../../src/ExpectedRows.js';
import type { GenerateOptions } from '../../src/Row.js';
import { letterTokenizer } from '../support/wordTokenizer.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-expected-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function expected(
  lines: readonly string[],
  rows?: number,
  options: GenerateOptions = {},
): Promise<ExpectedRows | undefined> {
  const input = join(folder, 'input');
  writeFileSync(input, lines.map((line) => `${line}\n`).join(''));
  return expectedRows([input], { format: 'jsonl' }, { maxNewTokens: 4, ...options }, letterTokenizer(), rows);
}

const row = (prompt: string): string => JSON.stringify({ prompt });

describe('expectedRows', () => {
  test('a file that ends among the first rows has so many; bad ones are no work', async () => {
    expect(await expected([row('a'), 'nonsense', row('abc')])).toEqual({
      promptTokens: 2,
      newTokens: 4,
      longRowTokens: 7,
      sharedPrefixTokens: 1,
      rows: 2,
    });
    expect(await expected([row('a'), row('b'), row('c')], 1)).toMatchObject({ rows: 1 });
    expect(await expected([row('a')], 0)).toMatchObject({ rows: 0 });
  });

  test('an empty file, and one of bad rows alone, are no rows', async () => {
    for (const lines of [[], ['nonsense', '{"x":1}']]) expect(await expected(lines)).toMatchObject({ rows: 0 });
  });

  test('of a long file the first rows say how long they are, and not how many', async () => {
    const lines = new Array<string>(300).fill(row('ab'));
    expect(await expected(lines)).toEqual({ promptTokens: 2, newTokens: 4, longRowTokens: 6, sharedPrefixTokens: 1 });
    expect(await expected(lines, 290)).toMatchObject({ rows: 290 });
  });

  test('what prompts begin with alike is counted beyond the first of them; the last token of each is its own', async () => {
    expect(await expected(['abcdx', 'abcdy', 'abcdz'].map(row))).toMatchObject({
      promptTokens: 5,
      sharedPrefixTokens: 4,
    });
    // A tree: "ab" once more for the second branch, "abc" and "abd" once more each for their second rows.
    expect((await expected(['abcx', 'abcy', 'abdx', 'abdy'].map(row)))?.sharedPrefixTokens).toBeCloseTo(
      (3 + 2 + 3) / 3,
    );
    expect(await expected(['ab', 'cd'].map(row))).not.toHaveProperty('sharedPrefixTokens');
    expect(await expected([row('abc')])).not.toHaveProperty('sharedPrefixTokens');
  });

  test('each sample of a row is an answer that shares its prompt with the others; those of a greedy row are one', async () => {
    const lines = [row('abcd'), row('xy')];
    const apart = ['abcd', 'abcd', 'abcd', 'xy', 'xy', 'xy'].map(row);
    expect(await expected(lines, 6, { samples: 3, temperature: 1 })).toEqual(
      await expected(apart, undefined, { temperature: 1 }),
    );
    expect(await expected(lines, 6, { samples: 3, temperature: 1 })).toMatchObject({
      rows: 6,
      promptTokens: 3,
      sharedPrefixTokens: (2 * 3 + 2 * 1) / 5,
    });
    // Without a limit, too; and what a row says goes before the job's.
    const own = [JSON.stringify({ prompt: 'abcd', samples: 5 }), row('xy')];
    expect(await expected(own, undefined, { samples: 1, temperature: 1 })).toMatchObject({
      rows: 6,
      promptTokens: (5 * 4 + 2) / 6,
      longRowTokens: 8,
    });
    expect(await expected(lines, 6, { samples: 3 })).toEqual(await expected(lines));
  });

  test('what can be read only once is not looked at', async () => {
    expect(await expectedRows([], { format: 'jsonl' }, {}, letterTokenizer())).toBeUndefined();
    expect(await expectedRows(['/dev/null'], { format: 'jsonl' }, {}, letterTokenizer())).toBeUndefined();
  });
});
