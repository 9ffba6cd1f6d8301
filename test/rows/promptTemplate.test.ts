import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { RowError } from '../../src/errors/RowError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { checkPromptTemplate, checkTemplateFields, filledTemplate } from '../../src/rows/promptTemplate.js';

describe('checkPromptTemplate', () => {
  test.each(['{{a}}', 'x {{ Customer Name }} y', '{{a}}{{a}}', '{"json": {"b": 1}} {{a}}', '{{{a}}}'])(
    'takes %j',
    (template) => {
      expect(() => checkPromptTemplate('promptTemplate', template)).not.toThrow();
    },
  );

  test.each([
    [7],
    [''],
    ['no field'],
    ['{{}}'],
    ['{{ }}'],
    ['{{a'],
    ['{{a}} {{b'],
    ['{{a{{b}}'],
    ['{{?}}'],
    ['{{:x}}'],
    ['{{{{'],
    ['{{{{a}}'],
    ['{{a}}{{{'],
  ])('refuses %j', (template) => {
    expect(() => checkPromptTemplate('promptTemplate', template)).toThrow(UsageError);
  });
});

describe('filledTemplate', () => {
  test('values as texts', () => {
    const fields = { a: 'x', n: 1.5, t: false, l: [1, { b: null }], d: new Date(0), g: 12n, e: '' };
    expect(filledTemplate('{{a}}|{{ n }}|{{t}}|{{l}}|{{d}}|{{g}}|{{e}}|', fields)).toBe(
      'x|1.5|false|[1,{"b":null}]|1970-01-01T00:00:00.000Z|12||',
    );
  });

  test('a field that is missing or inherited is a row error that names those that are there', () => {
    for (const fields of [
      { b: 1 },
      { a: undefined, b: 1 },
      Object.assign(Object.create({ a: 1 }) as object, { b: 1 }),
    ]) {
      expect(() => filledTemplate('{{a}}', fields)).toThrow(
        expect.objectContaining({
          rowCode: 'missing-field',
          message: expect.stringMatching(/found no field "a".*the row has "b"$/),
        }),
      );
    }
    expect(() => filledTemplate('{{constructor}}', {})).toThrow(/the row has none/);
  });

  test('null is a row error that names the remedy', () => {
    expect(() => filledTemplate('{{a}}', { a: null, b: 1 })).toThrow(
      expect.objectContaining({
        rowCode: 'missing-field',
        message:
          'found null in the field "a", which the prompt\'s template asks for: {{a?}} makes that empty text, {{a:TEXT}} TEXT',
      }),
    );
  });

  test.each([
    ['<{{a?}}>', '<>'],
    ['<{{ a ? }}>', '<>'],
    ['<{{a:none}}>', '<none>'],
    ['<{{ a : no one: "x"? }}>', '<no one: "x"?>'],
    ['<{{a:}}>', '<>'],
    ['<{{b?}}{{b:none}}>', '<11>'],
    ['<{{e:none}}>', '<>'],
    ['{{a?}}{{a:x}}{{a?}}{{a:y}}', 'xy'],
    ['{{{{x}} {{b}}', '{{x}} 1'],
    ['{{{{{{b}}}}', '{{1}}'],
    ['{{{b}}}', '{1}'],
    ['{{Why?}} {{At: noon}}', 'because 12'],
  ])('%j', (template, text) => {
    expect(() => checkPromptTemplate('promptTemplate', template)).not.toThrow();
    const others = { b: 1, e: '', 'Why?': 'because', Why: 'no', 'At: noon': 12 };
    for (const fields of [others, { ...others, a: null }]) expect(filledTemplate(template, fields)).toBe(text);
  });

  test('a field whose own name ends as one that may be missing has to have a value', () => {
    expect(() => filledTemplate('{{Why?}}', { 'Why?': null, Why: 'x' })).toThrow('null in the field "Why?"');
    expect(filledTemplate('{{Why??}}', { 'Why?': null })).toBe('');
  });

  test('whatever the values, a template with text for missing ones is filled', () => {
    const name = fc.constantFrom('a', 'b', 'c');
    const part = fc.oneof(
      fc.tuple(name, fc.constantFrom('?', ':', ':none')).map(([field, mark]) => `{{${field}${mark}}}`),
      fc.constantFrom('{{{{', 'x', ' } '),
    );
    fc.assert(
      fc.property(
        fc.array(part),
        fc.dictionary(
          name,
          fc.constantFrom<string | number | boolean | null | undefined>(null, undefined, '', '{{b?}}', 1, false),
        ),
        (parts, fields) => {
          const expected = parts.map((each) => {
            const [, field = '', mark] = /^\{\{([abc])(.*)\}\}$/.exec(each) ?? [];
            if (mark === undefined) return each === '{{{{' ? '{{' : each;
            return String(fields[field] ?? (mark === ':none' ? 'none' : ''));
          });
          expect(filledTemplate(parts.join(''), fields)).toBe(expected.join(''));
        },
      ),
    );
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

test('a field that may be missing is refused only where all columns are known, and it is nearly one of them', () => {
  const check = (template: string, all: boolean) => (): void => {
    checkTemplateFields(template, new Set(['subject', 'Why?', 'body']), 'the columns do', all);
  };
  for (const mark of ['?', ':none']) {
    expect(check(`{{subjct${mark}}}`, true)).toThrow(/found the field "subjct".*did you mean/);
    expect(check(`{{subjct${mark}}}`, false)).not.toThrow();
    expect(check(`{{subject${mark}}} {{region${mark}}} {{body_html${mark}}}`, true)).not.toThrow();
  }
  for (const all of [true, false]) {
    expect(check('{{region}}', all)).toThrow('found the field "region"');
    expect(check('{{Why?}}{{Why??}}', all)).not.toThrow();
  }
});
