import { expect, test } from '@jest/globals';
import { PayloadMemory } from '../../../../src/engine/peers/sockets/PayloadMemory.js';

const backing = ({ buffer }: Buffer): ArrayBuffer => buffer as ArrayBuffer;

test('memory that was given back is given out again, to nobody else, and whole payloads alone', () => {
  const memory = new PayloadMemory(2);
  const first = memory.take(100);
  expect(first).toHaveLength(100);
  expect(backing(memory.take(100))).not.toBe(backing(first));
  memory.giveBack(backing(first));
  const again = memory.take(90);
  expect(again).toHaveLength(90);
  expect(backing(again)).toBe(backing(first));
  expect(backing(memory.take(90))).not.toBe(backing(first));
});

test('a payload gets no memory that is too small, nor more than twice what it needs', () => {
  const memory = new PayloadMemory(2);
  const kept = memory.take(100);
  memory.giveBack(backing(kept));
  expect(memory.take(101).buffer.byteLength).toBe(101);
  expect(memory.take(49).buffer.byteLength).toBe(49);
  expect(backing(memory.take(50))).toBe(backing(kept));
});

test('only so much is kept', () => {
  const memory = new PayloadMemory(2);
  const all = [1, 2, 3].map(() => memory.take(64));
  for (const each of all) memory.giveBack(backing(each));
  const kept = new Set(all.map(backing));
  const given = [1, 2, 3].map(() => backing(memory.take(64)));
  expect(given.filter((each) => kept.has(each))).toHaveLength(2);
  expect(new Set(given).size).toBe(3);
});
