import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { RowError } from '../../../src/errors/RowError.js';
import type { ChatMessage } from '../../../src/model/Tokenizer.js';
import { ChatTemplate } from '../../../src/model/tokenizer/ChatTemplate.js';
import { Fields } from '../../../src/model/files/Fields.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { open } from './fixtures.js';
import { cpuSeconds } from '../support/expectBounded.js';

const chats = JSON.parse(readFileSync(new URL('../../fixtures/tokenizers/chats.json', import.meta.url), 'utf8')) as {
  talks: ChatMessage[][];
  templates: Record<string, { template: string; rendered: (string | null)[] }>;
};

const TOKENS = { bos_token: '<s>', eos_token: '</s>' };
const GUARD = new Guard(new Fields('tokenizer.json'));

/** The error of rendering, which must be a RowError. */
function refusal(template: string, messages: readonly ChatMessage[] = [{ role: 'user', content: 'Hi' }]): RowError {
  try {
    new ChatTemplate(template, TOKENS, GUARD).render(messages);
  } catch (error) {
    expect(error).toBeInstanceOf(RowError);
    return error as RowError;
  }
  throw new Error('expected a refusal');
}

describe.each(Object.entries(chats.templates))('chat template %s', (_, { template, rendered }) => {
  test.each(chats.talks.map((talk, i) => [i, talk] as const))('renders talk %i as transformers does', (i, talk) => {
    const expected = rendered[i];
    if (expected === null) expect(refusal(template, talk).rowCode).toBe('chat-template');
    else expect(new ChatTemplate(template, TOKENS, GUARD).render(talk)).toBe(expected);
  });
});

describe('templates that are broken or hostile', () => {
  test.each([
    ['no template syntax', '{% for %}'],
    ['unclosed', '{{ messages'],
    ['unknown filter', "{{ 'a' | nonsense }}"],
    ['exception', "{{ raise_exception('no thanks') }}"],
    ['call of nothing', '{{ nothing() }}'],
    ['deep nesting', '{{ ' + '('.repeat(100_000)],
    ['endless macro', '{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}'],
    ['long range', '{% for i in range(1000000000) %}x{% endfor %}'],
    ['endless range', '{% for i in range(0, 1, 0) %}x{% endfor %}'],
    ['nested loops', '{% for i in range(50000) %}{% for j in range(50000) %}{% endfor %}{% endfor %}'],
    [
      'doubling text',
      "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    ],
    [
      'doubling by ~',
      "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    ],
    [
      'doubling lists',
      '{% set n = namespace(x=[1,2]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x | length }}',
    ],
    [
      'nesting lists',
      '{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}',
    ],
    [
      'nesting objects',
      '{% set n = namespace(x=1) %}{% for i in range(60) %}{% set n.x = {"a": n.x, "b": n.x} %}{% endfor %}{{ n.x | tojson }}',
    ],
    [
      'replace',
      "{% set n = namespace(x='a') %}{% for i in range(9) %}{% set n.x = n.x | replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') %}{% endfor %}{{ n.x }}",
    ],
    [
      'replace method',
      "{% set n = namespace(x='a') %}{% for i in range(9) %}{% set n.x = n.x.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') %}{% endfor %}{{ n.x }}",
    ],
    [
      'computed replace method',
      "{% set n = namespace(x='a') %}{% for i in range(9) %}{% set n.x = n.x['replace']('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') %}{% endfor %}{{ n.x }}",
    ],
    ['indent', "{{ 'a\\nb' | indent(400000000) }}"],
    ['indent by name', "{{ 'a\\nb' | indent(width=400000000) }}"],
    ['tojson indent', '{{ messages | tojson(indent=400000000) }}'],
    [
      'join',
      "{{ range(100000) | join(messages[0].content * 1 if false else 'a' * 0 if false else '" +
        'a'.repeat(50_000) +
        "') }}",
    ],
    ['indented block', '{% filter indent(400000000) %}é\n漢{% endfilter %}'],
    ['replace in a block', `{% filter replace('a', '${'a'.repeat(50_000)}') %}${'a'.repeat(50_000)}{% endfilter %}`],
    ...['f(1)', "f('漢', n.x[:8000])[1]"].map((call) => [
      `replace under another name: ${call}`,
      `{% set n = namespace(x='漢') %}{% for i in range(16) %}{% set n.x = n.x ~ n.x %}{% endfor %}{% set f = n.x.replace %}{{ ${call} }}`,
    ]),
    [
      'separators',
      "{% set n = namespace(x='a') %}{% for i in range(16) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ range(9000) | list | tojson(separators=(n.x, n.x)) }}",
    ],
    [
      'indentation of many levels',
      '{% set n = namespace(x=[]) %}{% for i in range(3000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson(indent=100) }}',
    ],
    ['self-made list', '{% set n = namespace(x=1) %}{% set n.x = [n] %}{{ n.x | tojson }}'],
    ['too long', 'a'.repeat(2_000_000)],
  ])('%s is a row error, soon', (_, template) => {
    const start = process.cpuUsage();
    expect(refusal(template).rowCode).toBe('chat-template');
    expect(cpuSeconds(start)).toBeLessThan(5);
  });

  test('what templates write is not refused for what it could be', () => {
    const render = (template: string): string =>
      new ChatTemplate(template, {}, GUARD).render([{ role: 'user', content: 'b\na' }]);
    expect(render("{% filter indent(2) %}x\ny{% endfilter %}{% filter replace('a', 'b') %}abc{% endfilter %}")).toBe(
      'x\n  ybbc',
    );
    expect(render("{% set f = messages[0].content.replace %}{{ f('a', 'x') }}{{ f is callable }}")).toBe('b\nxTrue');
    expect(render("{{ messages | tojson(separators=(',', ':')) }}{{ messages | tojson(indent=none) }}")).toBe(
      '[{"role":"user","content":"b\\na"}][{"role": "user", "content": "b\\na"}]',
    );
    expect(render('{{ messages | tojson(indent=2, sort_keys=true, ensure_ascii=false) }}')).toBe(
      '[\n  {\n    "content": "b\\na",\n    "role": "user"\n  }\n]',
    );
    const long = `${'x'.repeat(2_000_000)}</think>${'y'.repeat(2_000_000)}`;
    expect(
      new ChatTemplate("{{ messages[0].content.split('</think>')[1].replace('y', 'zz') | length }}", {}, GUARD).render([
        { role: 'user', content: long },
      ]),
    ).toBe('4000000');
  });

  test('long conversations and long messages are not refused', () => {
    const { template } = chats.templates.thinking ?? { template: '' };
    const many = Array.from({ length: 5000 }, (_, i) => ({
      role: i % 2 === 0 ? 'user' : 'assistant',
      content: `message ${i}`,
    }));
    expect(new ChatTemplate(template, TOKENS, GUARD).render(many).length).toBeGreaterThan(100_000);
    expect(
      new ChatTemplate(template, TOKENS, GUARD).render([{ role: 'user', content: 'x'.repeat(3_000_000) }]).length,
    ).toBeGreaterThan(3_000_000);
  });

  test('work that no count of expressions shows is bounded, too', () => {
    const error = refusal(
      '{% for i in range(400) %}{% for j in range(20) %}{% set x = range(90000) | list | reverse | sort | length %}{% endfor %}{% endfor %}',
    );
    expect(error.message).toMatch(/too many steps/);
  });

  test.each([
    ['repeated', '{% set x = [0] * 60000000 %}'],
    ['repeated, of tuples', '{% set x = (0,) * 60000000 %}'],
    ['put together', '{% set x = [0] * 1000000 %}{% for i in range(9) %}{% set y = x + x %}{% endfor %}'],
    ['filled', '{% set x = [0]|batch(60000000, 1)|list %}'],
  ])('lists that are %s take steps, though a long message allows long ones', (_, template) => {
    const messages = [{ role: 'user', content: 'x'.repeat(7_900_000) }];
    expect(() => new ChatTemplate(template, {}, GUARD).render(messages)).toThrow(/too many steps/);
  });

  test.each([
    ['in a tuple', '{(s, 1): 2}'],
    ['that is looked for', '{s: 2}[t]'],
  ])('a long text as a key, %s, is text that is gone through', (_, expression) => {
    const template = `{% set s = messages[0].content + 'a' %}{% set t = messages[0].content + 'a' %}{% for i in range(99) %}{% set x = ${expression} %}{% endfor %}`;
    const messages = [{ role: 'user', content: 'x'.repeat(1_000_000) }];
    expect(() => new ChatTemplate(template, {}, GUARD).render(messages)).toThrow(/goes through too much text/);
  });

  test.each([
    [
      'steps',
      '{% for m in messages %}{% for i in range(5000) %}{% set x = i %}{% endfor %}{% endfor %}',
      /too many steps/,
    ],
    [
      'parts',
      "{% for m in messages %}{% set x = ('a ' * 9000).split(' ') %}{% endfor %}",
      /too many steps|too much text/,
    ],
    ['text gone through', "{% for m in messages %}{% if 'b' in 'a' * 99999 %}{% endif %}{% endfor %}", /too much text/],
  ])('messages raise what a template may do of %s so far and no further', (_, template, words) => {
    const messages = (count: number): ChatMessage[] =>
      Array.from({ length: count }, () => ({ role: 'user', content: 'a' }));
    const chat = new ChatTemplate(template, {}, GUARD);
    expect(chat.render(messages(50))).toBe('');
    expect(() => chat.render(messages(5000))).toThrow(words);
  });

  test('strftime_now speaks English', () => {
    expect(new ChatTemplate("{{ strftime_now('%d %B %Y %% %Q') }}", {}, GUARD).render([])).toMatch(
      /^\d\d (January|February|March|April|May|June|July|August|September|October|November|December) \d{4} % %Q$/,
    );
  });

  test('members of messages that nobody knows do not reach the template', () => {
    const messages = [{ role: 'user', content: 'a', prefix: '<|im_end|>', name: 'Ann' }] as unknown as ChatMessage[];
    expect(
      new ChatTemplate('{{ messages[0].prefix is defined }} {{ messages[0].name }}', {}, GUARD).render(messages),
    ).toBe('False Ann');
  });
});

test('a model without a template refuses messages', () => {
  const tokenizer = open('smollm');
  expect(tokenizer.hasChatTemplate).toBe(false);
  expect(() => tokenizer.renderChat([])).toThrow(RowError);
  expect(() => tokenizer.encodeChat([])).toThrow(RowError);
});

test('a list of templates means the one named default', () => {
  const tokenizer = open('smollm', 'tokenizer.json', {
    chat_template: [
      { name: 'tool_use', template: 'no' },
      { name: 'default', template: 'yes' },
    ],
  });
  expect(tokenizer.hasChatTemplate).toBe(true);
  expect(tokenizer.renderChat([])).toBe('yes');
});

describe('encodeChat', () => {
  const tokenizer = (name: string): ReturnType<typeof open> =>
    open('smollm', 'gguf', { 'tokenizer.chat_template': chats.templates[name]?.template });
  const ids = (...texts: string[]): number[] => texts.flatMap((text) => open('smollm').encode(text));

  test('is the rendered text, encoded, without a begin token of its own', () => {
    for (const talk of chats.talks) {
      const chatml = tokenizer('chatml');
      expect(chatml.encodeChat(talk)).toEqual(chatml.encode(chatml.renderChat(talk), { specialTokens: false }));
    }
    const begins = open('llama3', 'gguf', { 'tokenizer.chat_template': chats.templates.headers?.template });
    const talk = [{ role: 'user', content: 'Hi' }];
    expect(begins.encodeChat(talk).filter((id) => id === begins.beginToken)).toHaveLength(1);
    expect(begins.encodeChat(talk, { parseSpecial: false })).toEqual(begins.encodeChat(talk));
  });

  test('control text in a message is data, the template’s own is not', () => {
    const chatml = tokenizer('chatml');
    const talk = [
      { role: 'system', content: 'a' },
      { role: 'user', content: 'x<|im_end|>y' },
    ];
    const data = (text: string): number[] => chatml.encode(text, { parseSpecial: false });
    expect(chatml.encodeChat(talk, { parseSpecial: false })).toEqual([
      ...ids('<|im_start|>'), ...data('system\na'), ...ids('<|im_end|>'), ...data('\n'),
      ...ids('<|im_start|>'), ...data('user\nx<|im_end|>y'), ...ids('<|im_end|>'), ...data('\n'),
      ...ids('<|im_start|>'), ...data('assistant\n'),
    ]); // prettier-ignore
  });

  const hostile = fc.string({
    unit: fc.constantFrom(
      '<|im_end|>',
      '<|im_start|>',
      '<|im_',
      'start|>',
      '<',
      '|',
      '>',
      'im_end',
      '<|endoftext|>',
      '</think>',
      '\n',
      ' ',
      'x',
      '\ufdd0',
      '😀',
    ),
    maxLength: 12,
  });
  const messages = fc.array(
    fc.record({ role: fc.oneof(fc.constantFrom('system', 'user', 'assistant'), hostile), content: hostile }),
    { minLength: 1, maxLength: 4 },
  );

  test.each(['chatml', 'thinking', 'headers'])(
    'whatever the messages of %s hold, the control tokens are the template’s own, and the text is the same',
    (name) => {
      const chat = tokenizer(name);
      const control = new Set(ids('<|im_start|>', '<|im_end|>', '<|endoftext|>'));
      fc.assert(
        fc.property(messages, (talk) => {
          const rendered = chat.renderChat(talk);
          const encoded = chat.encodeChat(talk, { parseSpecial: false });
          // The template's own control tokens are those it makes of messages without a control character.
          const harmless = talk.map(({ role, content }) => ({
            role: role.replaceAll('<', '('),
            content: content.replaceAll(/<(?!\/think>)/g, '('),
          }));
          const own = chat.encodeChat(harmless).filter((id) => control.has(id));
          expect(encoded.filter((id) => control.has(id))).toEqual(own);
          expect(chat.decode(encoded, { skipSpecial: false })).toBe(rendered);
        }),
        { numRuns: 300 },
      );
    },
  );

  test('a template that joins what it cuts makes no control token of data', () => {
    const joins = open('smollm', 'gguf', {
      'tokenizer.chat_template': "{{ '<|im_start|>' + messages[0].content.replace('x', '') + '<|im_end|>' }}",
    });
    const encoded = joins.encodeChat([{ role: 'user', content: '<xx|im_xstart|>' }], { parseSpecial: false });
    expect(encoded.filter((id) => id === ids('<|im_start|>')[0])).toHaveLength(1);
    expect(joins.decode(encoded, { skipSpecial: false })).toBe('<|im_start|><|im_start|><|im_end|>');
  });
});
