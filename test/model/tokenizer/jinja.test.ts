import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { readWithSpelling } from '../../../src/arguments/jsonNumbers.js';
import { RowError } from '../../../src/errors/RowError.js';
import { Fields } from '../../../src/model/files/Fields.js';
import type { ChatMessage, TemplateInput } from '../../../src/model/Tokenizer.js';
import { ChatTemplate } from '../../../src/model/tokenizer/ChatTemplate.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { Template } from '../../../src/model/tokenizer/jinja/Template.js';
import { open } from './fixtures.js';

/** Made by scripts/nightly/templatesBesideJinja.mjs: what jinja2 renders. */
const golden = JSON.parse(readFileSync(new URL('../../fixtures/tokenizers/jinja.json', import.meta.url), 'utf8')) as {
  readonly variables: string;
  readonly now: number;
  readonly rendered: [string, string][];
};

const GUARD = new Guard(new Fields('tokenizer.json'));
const render = (source: string, variables: Record<string, unknown> = {}): string =>
  new Template(source).render({ variables, now: new Date(golden.now * 1000), messages: 1, size: 1000 });
const chat = (
  source: string | ReadonlyMap<string, string>,
  messages: readonly ChatMessage[],
  input: TemplateInput = {},
): string => new ChatTemplate(source, {}, GUARD).render(messages, input);

test.each(golden.rendered)('%s is rendered as jinja2 does', (source, text) => {
  expect(render(source, readWithSpelling(golden.variables) as Record<string, unknown>)).toBe(text);
});

describe('Python’s values', () => {
  test.each([
    ["{{ '\\n\\n a '.lstrip('\\n') }}|", ' a |'],
    ['{{ [true, none, 1.0, 1e-05, "it\'s", {1: (2,)}] }}', '[True, None, 1.0, 1e-05, "it\'s", {1: (2,)}]'],
    ["{{ '😀é'|length }}{{ '😀é'[1] }}{{ 'hELLO wORLD'|capitalize }}", '2éHello world'],
    ['{{ none|string ~ {"a": 1}|string }}{{ missing|length }}{{ missing|upper }}', "None{'a': 1}0"],
    ["{{ '%s has %d, %.2f' % ('a', 2, 0.125) }} {{ '{0!r:>5}'.format('x') }}", "a has 2, 0.12   'x'"],
    [
      '{{ 7 // -2 }} {{ 7 % -2 }} {{ 2 ** 70 }} {{ 1 / 2 }} {{ 2.5|round }} {{ 1 < 2 < 3 }}',
      '-4 -1 1180591620717411303424 0.5 2.0 True',
    ],
    [
      "{{ [3, 1]|sort|join(',') }}{{ ['a', 'B']|map('upper')|list }}{{ [1, 2]|select('eq', 2)|list }}",
      "1,3['A', 'B'][2]",
    ],
    ["{{ '%c' % (1 == 1,) }}{{ '%c' % 97 }}{{ 1 is test }}{{ none is filter }}", '\u0001aFalseFalse'],
    ['{{ ("x" if false) is undefined }}{{ {"a": none}.a }}', 'TrueNone'],
    ["{{ {'é': [1.0, none, true]}|tojson(indent=1) }}", '{\n "é": [\n  1.0,\n  null,\n  true\n ]\n}'],
  ])('%s', (source, text) => {
    expect(render(source)).toBe(text);
  });

  test.each([
    ['[1]|map("int")', undefined],
    ['{"a": 1}.items()', undefined],
    ['namespace(a=1)', undefined],
    ['range', undefined],
    ['cycler(1)', undefined],
    ['("y"|tojson)', undefined],
    ['range(3)', 'x'],
    ['missing', 'x'],
    ['[1]', 'x'],
    ['{"a": 1}', 'x'],
  ])('what is written into a text without fields may be what has members alone: %s', (value, text) => {
    for (const format of ['"x"', '"x"|safe']) {
      const source = `{{ (${format}) % (${value}) }}`;
      if (text === undefined) expect(() => render(source)).toThrow('not all arguments converted');
      else expect(render(source)).toBe(text);
    }
  });

  test.each([
    ['{{ missing.member }}', /'missing' is undefined/],
    ["{{ 'a' + 1 }}", /TypeError/],
    ['{{ none[1:] }}', /not subscriptable/],
    ['{% if false %}{{ {"a": 1, [1]: 2} }}{% endif %}', /unhashable type: 'list'/],
    ['{% macro m() %}{{ {(1, {}): 2}|length }}{% endmacro %}', /unhashable type: 'dict'/],
    ['{{ [1] is test }}', /unhashable type: 'list'/],
    ['{{ {"a": 1} is filter }}', /unhashable type: 'dict'/],
    ['{{ (1, [2]) is test }}', /unhashable type: 'list'/],
    ["{% include 'other' %}", /\{% include %\}/],
    ['{{ [1]|random }}', /the filter random/],
    ['{{ [1]|map("string") }}', /the text of a generator/],
    ['{{ range }}', /the text of a function/],
    ['{{ [].append(1) }}', /SecurityError/],
    ['{% set x = namespace(_a=1) %}', /SecurityError/],
  ])('%s is refused', (source, message) => {
    expect(() => render(source)).toThrow(message);
  });

  test('a name that a scope sets is its own from the beginning', () => {
    expect(render('{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = i + 5 %}{{ a }}{% endfor %}{{ a }}')).toBe(
      '16171',
    );
    expect(render('{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 5 %}{{ m() }}', { x: 3 })).toBe('5');
  });
});

describe('what the caller owes', () => {
  const READS = '{{ messages[0] | tojson }}';

  test('null is absent, and reasoning stands under all names', () => {
    expect(chat(READS, [{ role: 'assistant', content: null, tool_calls: [] }])).toBe(
      '{"role": "assistant", "tool_calls": []}',
    );
    for (const name of ['reasoning_content', 'reasoning', 'thinking'])
      expect(
        chat('{{ messages[0].reasoning_content }} {{ messages[0].thinking }}', [
          { role: 'assistant', content: '', [name]: 'why' },
        ]),
      ).toBe('why why');
  });

  test('parts of a content come as they are', () => {
    const content = [{ type: 'text', text: 'a' }];
    expect(
      chat("{{ messages[0].content[0]['text'] }}{{ messages[0].content is string }}", [{ role: 'user', content }]),
    ).toBe('aFalse');
  });

  test('of several templates rows with tools have tool_use', () => {
    const both = new Map([
      ['default', 'plain'],
      ['tool_use', 'tools'],
    ]);
    const talk = [{ role: 'user', content: 'a' }];
    expect(chat(both, talk)).toBe('plain');
    expect(chat(both, talk, { tools: [{ name: 'x' }] })).toBe('tools');
    expect(() => chat(new Map([['rag', 'x']]), talk)).toThrow(RowError);
    const gguf = open('smollm', 'gguf', {
      'tokenizer.chat_template': 'plain',
      'tokenizer.chat_template.tool_use': 'tools',
    });
    expect(gguf.renderChat(talk)).toBe('plain');
    expect(gguf.renderChat(talk, { tools: [{ name: 'x' }] })).toBe('tools');
  });

  test('numbers keep their spelling', () => {
    const templateArgs = readWithSpelling('{"x": [1.0, 1, 1e-05, 12345678901234567890, 1e22]}') as Record<
      string,
      unknown
    >;
    expect(chat('{{ x }}', [], { templateArgs })).toBe('[1.0, 1, 1e-05, 12345678901234567890, 1e+22]');
  });

  test('the clock stands where it is told to', () => {
    const now = '2026-01-04T09:05:07';
    expect(chat("{{ strftime_now('%d %B %Y %-d %j %U %W %V %G %u %I:%M:%S %p %q %%') }}", [], { now })).toBe(
      '04 January 2026 4 004 01 00 01 2026 7 09:05:07 AM %q %',
    );
  });
});
