import { expect, test } from '@jest/globals';
import { EventQueue } from '../../src/operators/EventQueue.js';
import type { RowResult } from '../../src/Row.js';

const delta = (id: number, text: string, sample?: number) => ({
  type: 'delta' as const,
  delta: { id, index: id, ...(sample !== undefined && { sample }), text, tokens: [text.length] },
});

test('deltas of a row that wait are one, before its result; those of others stay apart', () => {
  const queue = new EventQueue<RowResult>();
  const result = { type: 'result' as const, result: { id: 1, index: 1 } as RowResult };
  for (const event of [delta(1, 'a'), delta(2, 'x'), delta(1, 'bc'), delta(1, 'n', 3), result]) queue.push(event);
  expect(queue.length).toBe(4);
  expect(queue.shift()).toEqual({ type: 'delta', delta: { id: 1, index: 1, text: 'abc', tokens: [1, 2] } });
  queue.push(delta(1, 'later'));
  expect(queue.shift()).toEqual(delta(2, 'x'));
  expect(queue.shift()).toEqual(delta(1, 'n', 3));
  expect(queue.shift()).toEqual(result);
  expect(queue.shift()).toEqual(delta(1, 'later'));
  expect(queue.length).toBe(0);
});
