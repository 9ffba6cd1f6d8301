import { describe, expect, test } from '@jest/globals';
import { parseRow } from '../../src/jobs/formats/parseRow.js';
import { checkResponseFormat, formatInWords, responseFormatOf } from '../../src/rows/responseFormat.js';

const schema = { type: 'object' };

describe('responseFormatOf', () => {
  test.each([
    [
      { type: 'json_schema', schema },
      { type: 'json_schema', schema },
    ],
    [
      { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } },
      { type: 'json_schema', schema },
    ],
    [{ type: 'json_object' }, { type: 'json_schema', schema: { type: 'object' } }],
    [
      { type: 'regex', pattern: 'a+' },
      { type: 'regex', regex: 'a+' },
    ],
    [
      { type: 'regex', regex: 'a+' },
      { type: 'regex', regex: 'a+' },
    ],
    [
      { type: 'grammar', grammar: 'start: "a"' },
      { type: 'grammar', grammar: 'start: "a"' },
    ],
    [
      { type: 'choices', choices: ['a'] },
      { type: 'choices', choices: ['a'] },
    ],
    [
      { type: 'regex', regex: '\\d', classes: 'unicode' },
      { type: 'regex', regex: '\\d' },
    ],
    [
      { type: 'regex', pattern: '\\d+[\\w.]\\\\d\\S[^\\W]\\p{L}', classes: 'ascii' },
      {
        type: 'regex',
        regex: '[0-9]+[[0-9A-Za-z_].]\\\\d[^\\t\\n\\x0B\\f\\r ][^[^0-9A-Za-z_]]\\p{L}',
      },
    ],
    [{ type: 'text' }, { type: 'text' }],
  ])('%j', (given, meant) => {
    expect(responseFormatOf(given)).toEqual(meant);
  });

  test.each([
    ['text', 'an object with a type'],
    [{ type: 'xml' }, 'json_schema, regex'],
    [{ type: 'json_schema' }, 'JSON Schema'],
    [{ type: 'json_schema', json_schema: { name: 'x' } }, 'json_schema.schema'],
    [{ type: 'regex', regex: 3 }, 'a text'],
    [{ type: 'choices', choices: [] }, 'at least one'],
    [{ type: 'choices', choices: ['a', 1] }, 'choices[1]'],
    [{ type: 'regex', regex: '\ud800' }, 'surrogates'],
    [{ type: 'regex', regex: 'a', classes: 'posix' }, 'unicode or ascii'],
  ])('refuses %j', (given, words) => {
    expect(() => responseFormatOf(given)).toThrow(words);
    expect(() => {
      checkResponseFormat('responseFormat', given);
    }).toThrow(words);
  });

  test('what a model is told', () => {
    expect(formatInWords({ type: 'json_schema', schema })).toContain('{"type":"object"}');
    expect(formatInWords({ type: 'choices', choices: ['a', 'b'] })).toMatch(/a\nb$/);
    expect(formatInWords({ type: 'regex', regex: 'a' })).toBeUndefined();
  });

  test('rows of files bring one, in either spelling', () => {
    const format = { type: 'regex', pattern: 'a' };
    expect(parseRow({ prompt: 'x', responseFormat: format }, 1, false)).toMatchObject({
      responseFormat: { type: 'regex', regex: 'a' },
    });
    expect(parseRow({ prompt: 'x', response_format: format }, 1, false)).toMatchObject({
      responseFormat: { type: 'regex', regex: 'a' },
    });
    expect(parseRow({ prompt: 'x', response_format: format, responseFormat: format }, 1, false)).toMatchObject({
      error: { code: 'invalid-row' },
    });
    expect(parseRow({ prompt: 'x', responseFormat: 'json' }, 1, false)).toMatchObject({
      error: { code: 'invalid-parameter' },
    });
  });
});
