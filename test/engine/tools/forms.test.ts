import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { callableTools } from '../../../src/engine/tools/callableTools.js';
import { parsedAnswer } from '../../../src/engine/tools/AnswerReader.js';
import { CallStream } from '../../../src/engine/tools/CallStream.js';
import { withCalls, type CalledTools } from '../../../src/engine/tools/withCalls.js';
import { RowDeltas } from '../../../src/engine/rows/RowDeltas.js';
import type { Reasoning } from '../../../src/Row.js';
import { formIn, formNamed } from '../../../src/engine/tools/forms/index.js';
import { Template } from '../../../src/model/tokenizer/jinja/Template.js';
import { tries } from '../../support/tries.js';
import { TEMPLATES } from './templates.js';

const TEXT = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      '"',
      "'",
      '\\',
      '\n',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '<',
      '</s>',
      '<tool_call>',
      '[TOOL_CALLS]',
      '```',
      '5',
      'true',
    ),
    fc.constantFrom('é', '東', '😀', '\u2028', '\t', ' ', 'a', '</tool_call>', '<|end|>', '"}'),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 12,
});
const NUMBER = fc.oneof(
  fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
  fc.integer({ min: -999, max: 999 }).map((n) => n / 8),
);
const KEY = fc.constantFrom('a', 'b_1', 'Key', 'id');
const SCALAR = fc.oneof(TEXT, NUMBER, fc.boolean(), fc.constant(null));
const { value: VALUE } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    SCALAR,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(KEY, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

/** By parameter: its schema, and values of it. */
const PARAMETERS = {
  text: [{ type: 'string' }, TEXT],
  number: [{ type: 'number' }, NUMBER],
  flag: [{ type: 'boolean' }, fc.boolean()],
  none: [{ type: 'null' }, fc.constant(null)],
  list: [{ type: 'array' }, fc.array(VALUE, { maxLength: 3 })],
  object: [{ type: 'object' }, fc.dictionary(KEY, VALUE, { maxKeys: 3, noNullPrototype: true })],
} as const;
const parameters = {
  type: 'object',
  properties: Object.fromEntries(Object.entries(PARAMETERS).map(([name, [schema]]) => [name, schema])),
};
const NAMES = ['get_weather', 'get', 'math.factorial', 'a-b/c'];
const TOOLS = await callableTools(NAMES.map((name) => ({ name, parameters })));

const calls = (
  most: number,
  without: readonly string[],
): fc.Arbitrary<readonly { name: string; arguments: object }[]> =>
  fc
    .array(
      fc.record({
        name: fc.constantFrom(...NAMES),
        arguments: fc.record(
          Object.fromEntries(
            Object.entries(PARAMETERS).map(([name, [, value]]) => [name, value as fc.Arbitrary<unknown>]),
          ),
          { requiredKeys: [], noNullPrototype: true },
        ),
      }),
      { minLength: 1, maxLength: most },
    )
    .filter((drawn) => !without.some((text) => textsOf(drawn).some((each) => each.includes(text))));

function textsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

function rendered(template: Template, messages: readonly object[], add_generation_prompt: boolean): string {
  return template.render({
    variables: { messages, tools: null, add_generation_prompt },
    now: new Date(0),
    messages: messages.length,
    size: 100_000,
  });
}

const REASONED = { marks: undefined, open: false };
const USER = { role: 'user', content: 'What?' };

describe.each(TEMPLATES)('$form', ({ form: name, template: source, without, calls: most }) => {
  const form = formNamed(name);
  const template = new Template(source);
  const before = rendered(template, [USER], true);

  /** What the assistant says, as the template writes it. */
  const answer = (content: string, called: readonly { name: string; arguments: object }[]): string => {
    const tool_calls = called.map((each, at) => ({ id: `abcdef${100 + at}`, type: 'function', function: each }));
    const whole = rendered(template, [USER, { role: 'assistant', content, tool_calls }], false);
    expect(whole.startsWith(before)).toBe(true);
    return whole.slice(before.length).replace(/<\|im_end\|>\n$/, '');
  };

  test('is found in its template, and in no other', () => {
    expect(formIn(source)).toBe(form);
  });

  test('what a template writes is read back, whatever the arguments are', () => {
    fc.assert(
      fc.property(calls(most, without), (drawn) => {
        const read = parsedAnswer(form, answer('', drawn), TOOLS, REASONED);
        expect(read.problem).toBeUndefined();
        expect(read.calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) as unknown }))).toEqual(
          drawn,
        );
        expect(read.content.trim()).toBe('');
      }),
    );
  });

  test('an answer that breaks off within a call is no text, and no call', () => {
    const whole = answer('', [{ name: 'get', arguments: { text: 'a "b"', list: [1, 'x'] } }]);
    const end = whole.trimEnd().length;
    const begins = whole.lastIndexOf('get');
    for (let at = begins; at < end; at++) {
      const read = parsedAnswer(form, whole.slice(0, at), TOOLS, REASONED);
      // Some need nothing after the arguments.
      if (read.problem === undefined && read.calls.length === 1) {
        expect(JSON.parse(read.calls[0]?.arguments ?? '')).toEqual({ text: 'a "b"', list: [1, 'x'] });
        expect(at).toBeGreaterThan(end - 12);
      } else expect(read.problem).toBeDefined();
    }
  });

  test('a call of what is no tool is said to be one', () => {
    expect(parsedAnswer(form, answer('', [{ name: 'other', arguments: {} }]), TOOLS, REASONED).problem).toContain(
      '"other"',
    );
  });

  const texts = fc.array(
    fc.oneof(
      TEXT,
      fc.constant(answer('', [{ name: 'get', arguments: { text: 'x' } }])),
      fc.constantFrom(...form.markers, 'get', '<think>', '</think>'),
    ),
    { maxLength: 6 },
  );

  test('any text is read', () => {
    fc.assert(
      fc.property(texts, (parts) => {
        const text = parts.join('');
        const { content, calls: found, problem } = parsedAnswer(form, text, TOOLS, REASONED);
        // Nothing is left out: without calls and problems all of it is the content.
        if (found.length === 0 && problem === undefined && name !== 'gpt-oss') expect(content).toBe(text);
      }),
    );
  });

  const row = { id: 'r', index: 0 };
  const usage = { promptTokens: 7, completionTokens: 1 };
  const called = (reasoning: Reasoning, open: boolean): CalledTools => ({
    form,
    tools: TOOLS,
    required: false,
    reasoning,
    reasoned: { marks: { start: '<think>', end: '</think>' }, open, hidden: ['</think>'] },
    markers: new Set(),
  });
  /** Deltas of an answer that comes in pieces, put together. */
  function streamed(pieces: readonly string[], of: CalledTools): object {
    const all = { text: '', reasoning: '', toolCalls: [] as { id?: string; name?: string; arguments: string }[] };
    const deltas = new RowDeltas(
      row,
      ({ text, reasoning = '', toolCalls = [] }) => {
        all.text += text;
        all.reasoning += reasoning;
        for (const { index, ...grown } of toolCalls) {
          expect(index).toBe('id' in grown ? all.toolCalls.length : all.toolCalls.length - 1);
          const last = all.toolCalls[index];
          if (last) last.arguments += grown.arguments;
          else all.toolCalls.push({ ...grown });
        }
      },
      new CallStream(of, { ...row, promptTokens: usage.promptTokens }),
    );
    for (const [at, piece] of pieces.entries()) {
      deltas.append(piece);
      deltas.grown(Array.from({ length: at + 1 }, () => 1));
    }
    deltas.end([]);
    return all;
  }

  const REASONINGS = fc.constantFrom<Reasoning>('keep', 'separate', 'drop');

  test('whatever pieces an answer comes in, its deltas are put together what the whole is', () => {
    const pieces = fc.tuple(
      fc.oneof(
        texts,
        calls(most, without).map((drawn) => [answer(' so: ', drawn)]),
      ),
      fc.nat(),
    );
    fc.assert(
      fc.property(pieces, REASONINGS, fc.boolean(), ([parts, seed], reasoning, open) => {
        const text = (open ? 'thought</think>' : '') + parts.join('');
        const of = called(reasoning, open);
        const whole = withCalls({ ...row, text, tokens: [1], finishReason: 'stop', usage }, of, (value) => ({ value }));
        if (whole.error) return;
        // Pieces of one to four units: halves of characters, too.
        const cut: string[] = [];
        for (let at = 0, nth = seed; at < text.length; nth = (nth * 31 + 7) % 1009) {
          cut.push(text.slice(at, at + 1 + (nth % 4)));
          at += 1 + (nth % 4);
        }
        expect(streamed(cut, of)).toEqual({
          text: whole.text,
          reasoning: whole.reasoning ?? '',
          toolCalls: (whole.toolCalls ?? []).map(({ id, function: call }) => ({ id, ...call })),
        });
      }),
      { numRuns: tries(25, 1000) },
    );
  });

  test('the name of a call is told before its arguments, and these as they grow', () => {
    const long = 'abc '.repeat(40);
    const text = answer('', [{ name: 'get', arguments: { text: long } }]);
    const stream = new CallStream(called('drop', false), { ...row, promptTokens: 7 });
    const grown = Array.from(text, (piece) => stream.push(piece)).flatMap(({ toolCalls = [] }) => toolCalls);
    expect(grown[0]).toEqual({
      index: 0,
      id: expect.any(String),
      name: 'get',
      arguments: expect.stringMatching(/^.{0,12}$/),
    });
    // Nearly a piece for each character of the value.
    expect(grown.length).toBeGreaterThan(long.length - 10);
    expect(Math.max(...grown.map((each) => each.arguments.length))).toBeLessThan(16);
    expect(JSON.parse(grown.map((each) => each.arguments).join(''))).toEqual({
      text: long,
    });
  });
});

test('what stands before a call that is the whole answer is none of the text', () => {
  const text = '<|python_tag|>{"name": "get", "parameters": {"text": "a"}}';
  const { content, calls: read } = parsedAnswer(formNamed('llama3'), text, TOOLS, REASONED);
  expect([content, read]).toEqual(['', [{ name: 'get', arguments: '{"text": "a"}' }]]);
});
