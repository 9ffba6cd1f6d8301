import { PassThrough } from 'node:stream';
import { expect, test } from '@jest/globals';
import { writeRows } from '../../../src/jobs/output/writeRows.js';
import type { RowResult } from '../../../src/Row.js';

test('writeRows writes results and counts them', async () => {
  const usage = { promptTokens: 1, completionTokens: 0 };
  async function* results(): AsyncGenerator<RowResult> {
    yield { id: 1, index: 0, text: 'a', tokens: [], finishReason: 'stop', usage };
    yield {
      id: 2,
      index: 1,
      text: '',
      tokens: [],
      finishReason: 'error',
      usage,
      error: { code: 'memory', message: 'no' },
    };
  }
  const stream = new PassThrough();
  expect(await writeRows(results(), stream)).toEqual({ done: 2, failed: 1 });
  expect(String(stream.read()).split('\n')).toHaveLength(3);
});
