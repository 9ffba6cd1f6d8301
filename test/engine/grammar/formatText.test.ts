import { expect, test } from '@jest/globals';
import { formatText } from '../../../src/engine/grammar/formatText.js';
import { ResponseFormatError } from '../../../src/errors/RowError.js';

test('equal formats are equal texts, and the order of properties counts', () => {
  const properties = { b: { type: 'string' }, a: {} };
  expect(formatText({ type: 'json_schema', schema: { properties } })).toEqual({
    kind: 'json_schema',
    text: '{"properties":{"b":{"type":"string"},"a":{}}}',
  });
  expect(formatText({ type: 'json_schema', schema: { properties: { a: {}, b: { type: 'string' } } } }).text).not.toBe(
    formatText({ type: 'json_schema', schema: { properties } }).text,
  );
  expect(formatText({ type: 'choices', choices: ['a', 'b'] })).toEqual({ kind: 'choices', text: '["a","b"]' });
  expect(formatText({ type: 'regex', regex: 'a' }).kind).not.toBe(formatText({ type: 'grammar', grammar: 'a' }).kind);
});

const circular: Record<string, unknown> = {};
circular['self'] = circular;

test('what is no JSON is refused', () => {
  expect(() => formatText({ type: 'json_schema', schema: circular })).toThrow(ResponseFormatError);
});
