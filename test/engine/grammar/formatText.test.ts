import { expect, test } from '@jest/globals';
import { formatText } from '../../../src/engine/grammar/formatText.js';
import { ResponseFormatError } from '../../../src/errors/ResponseFormatError.js';
import type { ResponseFormat } from '../../../src/rows/responseFormat.js';

test('equal formats are equal texts, and the order of properties counts', () => {
  const properties = { b: { type: 'string' }, a: {} };
  expect(formatText({ type: 'json_schema', schema: { properties } })).toEqual({ kind: 'json_schema', text: '{"properties":{"b":{"type":"string"},"a":{}}}' });
  expect(formatText({ type: 'json_schema', schema: { properties: { a: {}, b: { type: 'string' } } } }).text).not.toBe(formatText({ type: 'json_schema', schema: { properties } }).text);
  expect(formatText({ type: 'choices', choices: ['a', 'b'] })).toEqual({ kind: 'choices', text: '["a","b"]' });
  expect(formatText({ type: 'regex', regex: 'a' }).kind).not.toBe(formatText({ type: 'grammar', grammar: 'a' }).kind);
});

const circular: Record<string, unknown> = {};
circular['self'] = circular;

test.each<[unknown, string]>([
  [7, 'responseFormat: found 7, expected an object'],
  [null, 'responseFormat: found null'],
  [{ type: 'yaml' }, 'responseFormat.type: found "yaml", expected json_schema, regex, grammar or choices'],
  [{ type: 'json_schema' }, 'responseFormat.schema: found undefined'],
  [{ type: 'json_schema', schema: [] }, 'responseFormat.schema: found an array'],
  [{ type: 'json_schema', schema: circular }, 'responseFormat.schema: found what is no JSON'],
  [{ type: 'json_schema', schema: { toJSON: () => undefined } }, 'responseFormat.schema: found an object'],
  [{ type: 'regex', regex: 7 }, 'responseFormat.regex: found 7, expected a string'],
  [{ type: 'regex', regex: '\ud800' }, 'without lone surrogates'],
  [{ type: 'choices', choices: [] }, 'expected an array of at least one string'],
  [{ type: 'choices', choices: ['a', 1] }, 'responseFormat.choices[1]: found 1'],
])('%j is refused', (format, message) => {
  expect(() => formatText(format as ResponseFormat)).toThrow(ResponseFormatError);
  expect(() => formatText(format as ResponseFormat)).toThrow(message);
});
