import { expect, test } from '@jest/globals';
import { keywordPath } from '../../../src/engine/grammar/keywordPath.js';

test.each([
  [{ not: {} }, '', 'not'],
  [{ properties: { a: {}, b: { items: { uniqueItems: true } } } }, '/properties/b/items', 'uniqueItems'],
  [{ properties: { not: { type: 'string' } }, anyOf: [{}, { not: {} }] }, '/anyOf/1', 'not'],
  [{ $defs: { 'a/b~c': { not: {} } } }, '/$defs/a~1b~0c', 'not'],
  [{ properties: { properties: { properties: { not: { not: {} } } } } }, '/properties/properties/properties/not', 'not'],
])('a keyword is found where it is one: %j', (schema, path, keyword) => {
  expect(keywordPath(schema, ['not', 'uniqueItems'])).toEqual({ path, keyword });
});

test.each([[{ const: { not: {} } }], [{ enum: [{ not: {} }] }], [{ properties: { not: true } }], [{ default: { not: 1 } }], [true], [null], ['not']])('and nowhere else: %j', (schema) => {
  expect(keywordPath(schema, ['not'])).toBeUndefined();
});

test('its value may have to be a certain one, and nothing is looked at that is too deep', () => {
  const schema = { items: { format: 'date', items: { format: 'x' } } };
  expect(keywordPath(schema, ['format'], (value) => value === 'x')?.path).toBe('/items/items');
  let deep: unknown = { not: {} };
  for (let i = 0; i < 100_000; i++) deep = { items: deep };
  expect(keywordPath(deep, ['not'])).toBeUndefined();
});
