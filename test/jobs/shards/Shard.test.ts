import { describe, expect, test } from '@jest/globals';
import { UsageError } from '../../../src/errors/UsageError.js';
import { checkShard, rowsOfShard, shardOfName, shardOfRow, shardPath } from '../../../src/jobs/shards/Shard.js';

describe('rows are dealt out', () => {
  test('each to one shard, so many at a time; the shares of an input of any length add up, and differ by one deal', () => {
    for (const count of [1, 2, 3, 8])
      for (const rows of [1, 4, 50])
        for (const total of [0, 1, 7, 24, 25, 199, 1000]) {
          const dealt = Array.from({ length: count }, () => 0);
          for (let row = 0; row < total; row += 1) {
            const shard = shardOfRow(row, { count, rows });
            dealt[shard] = (dealt[shard] ?? NaN) + 1;
          }
          expect(dealt.map((_, index) => rowsOfShard(total, { index, count, rows }))).toEqual(dealt);
          expect(Math.max(...dealt) - Math.min(...dealt)).toBeLessThanOrEqual(rows);
        }
  });

  test('as cards are: rows that stand together stay so, and one stays where it is when more come behind', () => {
    const shards = Array.from({ length: 14 }, (_, row) => shardOfRow(row, { count: 3, rows: 2 }));
    expect(shards).toEqual([0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0]);
  });
});

describe('names of parts', () => {
  test.each([
    ['answers.jsonl', 'answers-00002-of-00008.jsonl'],
    ['out/a.b/answers.csv.gz', 'out/a.b/answers-00002-of-00008.csv.gz'],
    ['answers', 'answers-00002-of-00008'],
    ['/data.d/answers', '/data.d/answers-00002-of-00008'],
  ])('%s', (output, part) => {
    expect(shardPath(output, { index: 2, count: 8 })).toBe(part);
    const [name, own] = [part, output].map((path) => path.split('/').at(-1) ?? '');
    expect(shardOfName(name ?? '', own ?? '')).toEqual({ index: 2, count: 8 });
  });

  test('are told from others', () => {
    for (const name of [
      'answers.csv',
      'answers-2-of-8.csv',
      'answers-00002-of-00008.csv.job.json',
      'other-00002-of-00008.csv',
    ])
      expect(shardOfName(name, 'answers.csv')).toBeUndefined();
    expect(shardPath('a.csv', { index: 99_999, count: 100_000 })).toBe('a-99999-of-100000.csv');
    expect(shardOfName('a-99999-of-100000.csv', 'a.csv')).toEqual({ index: 99_999, count: 100_000 });
  });
});

test.each<[unknown, string]>([
  [5, 'shard: found 5, expected an object'],
  [{ index: 0 }, 'shard.count: found undefined, expected a whole number from 1 to 100000'],
  [{ count: 2 }, 'shard.index: found undefined, expected a whole number'],
  [
    { index: 2, count: 2 },
    'shard.index: found 2, expected a whole number from 0 to 1, as there are 2 shards, counted from 0',
  ],
  [{ index: -1, count: 2 }, 'shard.index: found -1, expected'],
  [{ index: 0, count: 0 }, 'shard.count: found 0, expected a whole number from 1'],
  [{ index: 0, count: 2, rows: 0 }, 'shard.rows: found 0, expected a whole number of at least 1'],
  [{ index: 0, count: 2, row: 1 }, 'shard: found the unknown "row", expected any of index, count, rows'],
])('what is no shard is refused: %j', (shard, message) => {
  expect(() => checkShard('shard', shard)).toThrow(UsageError);
  expect(() => checkShard('shard', shard)).toThrow(message);
});
