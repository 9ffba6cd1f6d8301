import { expect, test } from '@jest/globals';
import { bytesOfPart, partsOf, ValueBuilder } from '../../../src/jobs/input/valueParts.js';

const long = 'aé漢😀'.repeat(200_000);

test.each<[string, unknown]>([
  ['scalars', [1, -0, 0.1, true, false, null, undefined, 'text', '']],
  ['a text of pieces', ['before', long, { note: `${long}.`, [long]: 1 }]],
  ['what is in each other', { a: [{ b: [[], {}, [null]] }, 'c'], d: {} }],
  ['names that objects have', JSON.parse('{"__proto__": {"constructor": 1}, "7": "x", "toString": []}')],
  ['a list', Array.from({ length: 5_000 }, (_, at) => ({ id: at, name: `n${at}` }))],
])('%s: put together again they are what they were', (_, value) => {
  const builder = new ValueBuilder();
  let most = 0;
  for (const part of partsOf(value)) {
    most = Math.max(most, bytesOfPart(part));
    builder.add(part);
  }
  expect(builder.value).toEqual(value);
  expect(Object.is(JSON.stringify(builder.value), JSON.stringify(value))).toBe(true);
  // No part is as long as what it is of may be.
  expect(most).toBeLessThan(2 ** 20);
});

test('a value may be as deep as it likes', () => {
  let deep: unknown = 'here';
  for (let at = 0; at < 100_000; at += 1) deep = [deep];
  const builder = new ValueBuilder();
  for (const part of partsOf(deep)) builder.add(part);
  let found = builder.value;
  let depth = 0;
  for (; Array.isArray(found); depth += 1) found = found[0] as unknown;
  expect([depth, found]).toEqual([100_000, 'here']);
});
