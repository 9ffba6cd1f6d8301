import { expect, test } from '@jest/globals';
import { EventQueue } from '../../src/operators/EventQueue.js';
import type { RowResult } from '../../src/Row.js';
import type { ToolCallDelta } from '../../src/rows/toolCalls.js';

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

test('calls of tools are put together, each for itself', () => {
  const queue = new EventQueue<RowResult>();
  const calls = (...toolCalls: readonly ToolCallDelta[]) => ({
    type: 'delta' as const,
    delta: { id: 1, index: 0, text: '', toolCalls, tokens: [1] },
  });
  queue.push(calls({ index: 0, id: 'c0', name: 'f', arguments: '' }));
  queue.push(calls({ index: 0, arguments: '{"a"' }));
  queue.push(calls({ index: 0, arguments: ': 1}' }, { index: 1, id: 'c1', name: 'g', arguments: '{' }));
  queue.push(calls({ index: 1, arguments: '}' }));
  const { toolCalls } = (queue.shift() as ReturnType<typeof calls>).delta;
  expect(toolCalls).toEqual([
    { index: 0, id: 'c0', name: 'f', arguments: '{"a": 1}' },
    { index: 1, id: 'c1', name: 'g', arguments: '{}' },
  ]);
  queue.push(calls({ index: 1, arguments: ' ' }));
  expect(queue.shift()).toEqual(calls({ index: 1, arguments: ' ' }));
});
