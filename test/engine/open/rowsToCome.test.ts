import { describe, expect, test } from '@jest/globals';
import { rowsToCome } from '../../../src/engine/open/rowsToCome.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const told = (more: Partial<EngineOptions>): ReturnType<typeof rowsToCome> =>
  rowsToCome({ model: 'none', ...more }, letterTokenizer());

describe('rowsToCome', () => {
  test('what is said of the rows says how long a long one is; what is known of none is left open', async () => {
    const expectedRows = { promptTokens: 10.5, newTokens: 4 };
    expect(await told({ expectedRows, rowTokens: 99 })).toEqual({ expected: expectedRows, rowTokens: 15 });
    expect(
      await told({ expectedRows: () => Promise.resolve(undefined), rowTokens: () => Promise.resolve(99) }),
    ).toEqual({ expected: undefined, rowTokens: 99 });
    expect(await told({})).toEqual({ expected: undefined, rowTokens: undefined });
  });

  test('answers without a limit are as long as a row may be', async () => {
    expect((await told({ expectedRows: { promptTokens: 1, newTokens: 2 ** 31 } })).rowTokens).toBe(2 ** 24);
  });

  test('what functions find out is checked as what is said is', async () => {
    await expect(told({ expectedRows: () => Promise.resolve({ promptTokens: 1, newTokens: -1 }) })).rejects.toThrow(
      'expectedRows.newTokens: found -1, expected a number of at least 0',
    );
    await expect(told({ expectedRows: () => Promise.resolve(null as never) })).rejects.toThrow(UsageError);
    await expect(told({ rowTokens: () => Promise.resolve('9' as never) })).rejects.toThrow(
      'rowTokens: found "9", expected a whole number',
    );
  });
});
