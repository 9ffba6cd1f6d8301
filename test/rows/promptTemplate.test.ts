import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { RowError } from '../../src/errors/RowError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { checkPromptTemplate, filledTemplate } from '../../src/rows/promptTemplate.js';

describe('checkPromptTemplate', () => {
  test.each(['{{a}}', 'x {{ Customer Name }} y', '{{a}}{{a}}', '{"json": {"b": 1}} {{a}}', '{{{a}}}'])(
    'takes %j',
    (template) => {
      expect(() => checkPromptTemplate('promptTemplate', template)).not.toThrow();
    },
  );

  test.each([[7], [''], ['no field'], ['{{}}'], ['{{ }}'], ['{{a'], ['{{a}} {{b'], ['{{a{{b}}']])(
    'refuses %j',
    (template) => {
      expect(() => checkPromptTemplate('promptTemplate', template)).toThrow(UsageError);
    },
  );
});

describe('filledTemplate', () => {
  test('values as texts', () => {
    const fields = { a: 'x', n: 1.5, t: false, l: [1, { b: null }], d: new Date(0), g: 12n, e: '' };
    expect(filledTemplate('{{a}}|{{ n }}|{{t}}|{{l}}|{{d}}|{{g}}|{{e}}|', fields)).toBe(
      'x|1.5|false|[1,{"b":null}]|1970-01-01T00:00:00.000Z|12||',
    );
  });

  test('a field that is missing, null or inherited is a row error that names those that are there', () => {
    for (const fields of [{ b: 1 }, { a: null, b: 1 }, Object.assign(Object.create({ a: 1 }) as object, { b: 1 })]) {
      expect(() => filledTemplate('{{a}}', fields)).toThrow(
        expect.objectContaining({
          rowCode: 'missing-field',
          message: expect.stringMatching(/found no field "a".*the row has "b"$/),
        }),
      );
    }
    expect(() => filledTemplate('{{constructor}}', {})).toThrow(/the row has none/);
  });

  test('what JSON cannot write is a row error', () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    for (const a of [cycle, Symbol('s'), (): number => 1])
      expect(() => filledTemplate('{{a}}', { a })).toThrow(RowError);
  });

  test('a value is text and nothing else: braces and dollar signs in it stay as they are', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('{{b}}', '{', '}', '$&', '$1', 'x') }),
        (a) => filledTemplate('<{{a}}>', { a, b: 'no' }) === `<${a}>`,
      ),
    );
  });
});

test('what would be too long is not made: lengths are added up first', () => {
  const fields = { a: 'x'.repeat(2 ** 24), b: 'y' };
  const template = '{{a}} '.repeat(1000);
  // All of it would be more than a text can have.
  expect(() => filledTemplate(template, fields, 2 ** 26)).toThrow(RowError);
  expect(() => filledTemplate(template, fields, 2 ** 26)).toThrow('more than 67108864 UTF-16 units');
  expect(filledTemplate('{{b}}{{b}}', fields, 2)).toBe('yy');
  expect(() => filledTemplate('{{b}}{{b}}.', fields, 2)).toThrow('more than 2');
});
