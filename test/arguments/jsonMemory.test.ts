import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { exceedsMemory, jsonMemory, takesAtMost } from '../../src/arguments/jsonMemory.js';

function memoryOf(json: string): number {
  return [...jsonMemory(Buffer.from(json))].at(-1) ?? NaN;
}

test.each([
  ['objects', '{},', 56],
  ['lists', '[],', 16],
  ['fractions', '1.5,', 24],
  ['whole numbers', '1,', 8],
  ['whole numbers that become texts, too', '90071992547409931234,', 56],
  ['texts', '"ab",', 24],
  ['objects with a member', '{"a":1},', 56],
  ['lists in objects', '{"a":[1]},', 90],
])('%s count for no less than they take', (_, item, bytes) => {
  const count = 10_000;
  expect(memoryOf(`[${item.repeat(count)}0]`)).toBeGreaterThan(bytes * count);
});

test('a key that comes again counts for little, each of another name for much', () => {
  const rows = 2000;
  const same = memoryOf(`[${'{"key":1},'.repeat(rows)}0]`);
  const others = memoryOf(`[${Array.from({ length: rows }, (_, at) => `{"key${at}":1},`).join('')}0]`);
  expect(same).toBeLessThan(rows * 150);
  expect(others).toBeGreaterThan(rows * 300);
});

test('what stands in a text is text', () => {
  const text = JSON.stringify('{"a":[1,2],"\\":"\\""}'.repeat(1000));
  expect(memoryOf(text)).toBe(40 + text.length - 2);
});

test('millions of plain letters have room, and what is nested a million times has not', () => {
  const most = 16 * 2 ** 20;
  expect(exceedsMemory(Buffer.from(JSON.stringify({ prompt: 'what is so '.repeat(700_000) })), most)).toBe(false);
  expect(exceedsMemory(Buffer.from('['.repeat(1_000_000)), most)).toBe(true);
});

test('lists count for twice as much where they nest deep, and for what they take beside each other', () => {
  const lists = 100_000;
  expect(memoryOf('['.repeat(lists) + ']'.repeat(lists))).toBeGreaterThan(110 * lists);
  expect(memoryOf(`[${'[[]],'.repeat(lists / 2)}0]`)).toBeLessThan(70 * lists);
  expect(memoryOf(`[${`${'['.repeat(40)}${']'.repeat(40)},`.repeat(lists / 40)}0]`)).toBeLessThan(70 * lists);
});

test('what is so short that it need not be looked at comes to no more', () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(takesAtMost(Buffer.byteLength(json), memoryOf(json) - 1)).toBe(false);
    }),
  );
});

test('bytes that are no JSON have an end, too', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => {
      expect([...jsonMemory(Buffer.from(bytes))]).toHaveLength(1);
    }),
  );
});
