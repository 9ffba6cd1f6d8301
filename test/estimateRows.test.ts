import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InterruptedError } from '../src/errors/InterruptedError.js';
import { JobFileError } from '../src/errors/JobFileError.js';
import { UsageError } from '../src/errors/UsageError.js';
import { estimateRows } from '../src/estimateRows.js';
import type { ExpectedRows } from '../src/ExpectedRows.js';
import type { GenerateOptions, RowInput } from '../src/Row.js';
import { letterTokenizer } from './support/wordTokenizer.js';

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
  return estimateRows(input, letterTokenizer(), {
    read: { format: 'jsonl' },
    generate: { maxNewTokens: 4, ...options },
    ...(rows !== undefined && { rows }),
  });
}

const row = (prompt: string): string => JSON.stringify({ prompt });

describe('estimateRows', () => {
  test('a file that ends among the first rows has so many; bad ones are no work', async () => {
    expect(await expected([row('a'), 'nonsense', row('abc')])).toEqual({
      promptTokens: 2,
      newTokens: 4,
      longRowTokens: 7,
      longestRowTokens: 7,
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

  test('the longest row is known where all have been looked at, and not where others may come', async () => {
    const lines = [...new Array<string>(40).fill(row('ab')), row('a'.repeat(90))];
    expect(await expected(lines)).toMatchObject({ longRowTokens: 6, longestRowTokens: 94 });
    expect(await expected([...lines, ...new Array<string>(300).fill(row('ab'))])).not.toHaveProperty(
      'longestRowTokens',
    );
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
    expect(await estimateRows([], letterTokenizer())).toBeUndefined();
    expect(await estimateRows([], letterTokenizer(), { read: { format: 'csv' } })).toBeUndefined();
    expect(await estimateRows('/dev/null', letterTokenizer())).toBeUndefined();
  });

  describe('of rows in memory', () => {
    const generate = { maxNewTokens: 4 };
    const estimate = (rows: Iterable<RowInput>, more: object = {}): Promise<ExpectedRows | undefined> =>
      estimateRows(rows, letterTokenizer(), { generate, ...more });

    test('says what the same rows in a file do; bad ones are no work', async () => {
      const rows = [{ prompt: 'abcdx' }, { prompt: 'abcdy', maxNewTokens: 9 }, { tokens: [1, 2] }, { prompt: 'ab' }];
      const inFile = await expected(rows.map((each) => JSON.stringify(each)));
      expect(await estimate(rows)).toEqual(inFile);
      expect(await estimate(new Set(rows))).toEqual(inFile);
      const bad: unknown[] = [...rows, null, 5, { promt: 'x' }, {}];
      expect(await estimate(bad as RowInput[])).toEqual(inFile);
      expect(await estimate(rows, { rows: 2 })).toEqual({ ...inFile, rows: 2 });
    });

    test('an array is counted beyond those that are looked at, as if the others were like them', async () => {
      const rows = Array.from({ length: 1000 }, (_, at) => ({ prompt: at % 4 === 0 ? '' : 'ab' }));
      expect((await estimate(rows))?.rows).toBeCloseTo(750, -1);
      expect(await estimate(rows.map(() => ({ prompt: 'ab' })))).toMatchObject({ promptTokens: 2, rows: 1000 });
      expect(await estimate(new Set(rows))).not.toHaveProperty('rows');
    });

    test('what is no rows is refused; an iterator, whose rows the run would miss, is left as it is', async () => {
      function* once(): Generator<RowInput> {
        yield { prompt: 'a' };
      }
      const rows = once();
      expect(await estimate(rows)).toBeUndefined();
      expect([...rows]).toEqual([{ prompt: 'a' }]);
      await expect(estimate({ prompt: 'a' } as never)).rejects.toThrow(
        new UsageError('input: found an object with prompt, expected paths, or an array or another iterable of rows'),
      );
      await expect(estimate([{ prompt: 'a' }], { read: { format: 'csv' } })).rejects.toThrow(
        new UsageError('read: found it beside rows in memory, expected files'),
      );
    });
  });

  test('files may be given as a pattern, and are read as they are told to be', async () => {
    writeFileSync(join(folder, 'a.csv'), 'Question;n\nab;1\n');
    writeFileSync(join(folder, 'b.csv'), 'Question;n\nabcd;2\nx;3\n');
    const read = { columns: { prompt: 'Question' }, delimiter: ';' };
    const generate = { maxNewTokens: 4 };
    expect(await estimateRows(join(folder, '*.csv'), letterTokenizer(), { read, generate })).toMatchObject({
      rows: 3,
      promptTokens: 7 / 3,
    });
  });

  test('its signal ends it between two rows', async () => {
    const ending = new AbortController();
    let seen = 0;
    const rows: Iterable<RowInput> = {
      *[Symbol.iterator]() {
        for (;;) {
          if ((seen += 1) === 3) ending.abort('enough');
          yield { prompt: 'ab' };
        }
      },
    };
    const generate = { maxNewTokens: 4, signal: ending.signal };
    await expect(estimateRows(rows, letterTokenizer(), { generate })).rejects.toThrow(InterruptedError);
    expect(seen).toBe(3);
  });

  test('what is no option, and what is no file, is refused', async () => {
    await expect(estimateRows('x', letterTokenizer(), { row: 3 } as never)).rejects.toThrow(
      new UsageError('options: found the unknown "row", expected any of read, generate, rows (did you mean rows?)'),
    );
    await expect(estimateRows(join(folder, 'none-*.csv'), letterTokenizer())).rejects.toThrow(JobFileError);
  });
});
