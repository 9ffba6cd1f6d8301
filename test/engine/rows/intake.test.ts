import { describe, expect, test } from '@jest/globals';
import { Subject } from 'rxjs';
import { RunRecorder } from '../../../src/engine/execution/RunRecorder.js';
import type { OrderedResult } from '../../../src/engine/rows/ActiveRow.js';
import { InFlight } from '../../../src/engine/rows/InFlight.js';
import { intake } from '../../../src/engine/rows/intake.js';
import type { RowInput } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

async function take(rows: Iterable<unknown>, limit = 100): Promise<{ accepted: number[][]; rejected: OrderedResult[]; complete: boolean }> {
  const rejected$ = new Subject<OrderedResult>();
  const rejected: OrderedResult[] = [];
  let complete = false;
  rejected$.subscribe({ next: (result) => rejected.push(result), complete: () => (complete = true) });
  const accepted: number[][] = [];
  const source = intake(rows as Iterable<RowInput>, {
    options: { maxNewTokens: 4 },
    tokenizer: letterTokenizer(),
    limits: { contextTokens: 20, vocabularySize: 27 },
    cacheTokens: 12,
    inFlight: new InFlight(limit),
    recorder: new RunRecorder({ model: '', policy: {}, loadSeconds: 0, memory: () => ({}) }),
    rejected$,
  });
  for await (const row of source) accepted.push([...row.sequence.tokens]);
  return { accepted, rejected, complete };
}
const codes = (rejected: readonly OrderedResult[]): unknown[] => rejected.map(({ sequence, result }) => [sequence, result.id, result.index, result.error?.code]);

describe('intake', () => {
  test('prepares good rows, and turns bad ones into results in their place', async () => {
    const { accepted, rejected, complete } = await take([{ prompt: 'a' }, { prompt: '' }, { prompt: 'b' }, null, 7, { id: 'z', error: { code: 'invalid-json', message: 'line 6' } }]);
    expect(accepted).toEqual([[0], [1]]);
    expect(codes(rejected)).toEqual([[1, 2, 1, 'empty-prompt'], [3, 4, 3, 'invalid-row'], [4, 5, 4, 'invalid-row'], [5, 'z', 5, 'invalid-json']]);
    expect(complete).toBe(true);
  });

  test('an id may come once; a missing id is the row\'s number', async () => {
    const { rejected } = await take([{ prompt: 'a', id: 'x' }, { prompt: 'a', id: 'x' }, { prompt: 'a', id: 4 }, { prompt: 'a' }, { prompt: 'a', id: '4' }, { prompt: 'a', id: NaN }]);
    expect(codes(rejected)).toEqual([[1, 'x', 1, 'duplicate-id'], [3, 4, 3, 'duplicate-id'], [5, 6, 5, 'invalid-row']]);
  });

  test('a row that could never have enough cache is refused, with what it needs', async () => {
    const { accepted, rejected } = await take([{ prompt: 'abcdefghi' }, { prompt: 'abcdefghij' }]);
    expect(accepted).toHaveLength(1);
    expect(rejected[0]?.result.error).toEqual({ code: 'memory', message: expect.stringContaining('may need 13 tokens of KV cache, all there is is 12') });
  });

  test('keeps the index of a resumed job, and what is carried', async () => {
    const { rejected } = await take([{ prompt: '', index: 41, carry: { label: 'x' } }]);
    expect(rejected[0]?.result).toMatchObject({ id: 42, index: 41, row: { label: 'x' } });
  });

  test('waits at the limit of rows in flight', async () => {
    let pulled = 0;
    const rows = (function* () {
      for (; pulled < 10; pulled++) yield { prompt: 'a' };
    })();
    void take(rows, 3);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(pulled).toBe(3);
  });
});
