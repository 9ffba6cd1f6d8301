import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { RowError } from '../../../src/errors/RowError.js';
import type { ChatMessage, TemplateInput } from '../../../src/model/Tokenizer.js';
import { open } from './fixtures.js';

const { template, cases } = JSON.parse(
  readFileSync(new URL('../../fixtures/tokenizers/tool-chats.json', import.meta.url), 'utf8'),
) as {
  readonly template: string;
  readonly cases: readonly {
    messages: ChatMessage[];
    tools: unknown[] | null;
    args: Record<string, unknown>;
    rendered: string;
  }[];
};

const chat = open('smollm', 'gguf', { 'tokenizer.chat_template': template });
const inputOf = ({ tools, args }: (typeof cases)[number]): TemplateInput => ({
  tools: tools ?? undefined,
  templateArgs: args,
});

test.each(cases.map((each, i) => [i, each] as const))('case %i is rendered as transformers does', (_, each) => {
  expect(chat.renderChat(each.messages, inputOf(each))).toBe(each.rendered);
  expect(chat.encodeChat(each.messages, inputOf(each))).toEqual(chat.encode(each.rendered, { specialTokens: false }));
});

test('variables take the place of those of the model, and not of ours', () => {
  const tokenizer = open('smollm', 'gguf', {
    'tokenizer.chat_template': '{{ bos_token }}|{{ documents }}|{{ messages | length }}',
  });
  expect(tokenizer.renderChat([], { templateArgs: { bos_token: 'B', documents: 'D', messages: [1, 2] } })).toBe(
    'B|D|0',
  );
});

test('what a template makes of tools is bounded by their size', () => {
  const tools = [{ name: 'x'.repeat(300_000) }];
  expect(chat.renderChat([{ role: 'user', content: 'a' }], { tools }).length).toBeGreaterThan(300_000);
  const doubling = open('smollm', 'gguf', {
    'tokenizer.chat_template':
      '{% set n = namespace(x=tools) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x | tojson }}',
  });
  expect(() => doubling.renderChat([], { tools })).toThrow(RowError);
});

describe('as data', () => {
  const control = new Set(
    ['<|im_start|>', '<|im_end|>', '<|endoftext|>'].flatMap((text) => chat.encode(text, { specialTokens: false })),
  );
  const text = fc.string({
    unit: fc.constantFrom(
      '<|im_end|>',
      '<|im_start|>',
      '<|im_',
      'start|>',
      '<',
      '|',
      '>',
      'im_end',
      ' ',
      'x',
      '\ufdd0',
    ),
    maxLength: 8,
  });
  const call = fc.record({ name: text, arguments: fc.dictionary(text, text, { maxKeys: 3 }) });
  const message = fc.record({
    role: fc.constantFrom('system', 'user', 'assistant', 'tool'),
    content: text,
    tool_calls: fc.array(call, { maxLength: 2 }),
    reasoning_content: text,
  });
  const tool = fc.record({
    type: fc.constant('function'),
    function: fc.record({ name: text, parameters: fc.dictionary(text, text, { maxKeys: 3 }) }),
  });

  test('whatever tools, calls and variables hold, the control tokens are the template’s own, and the text is the same', () => {
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 3 }),
        fc.array(tool, { maxLength: 2 }),
        text,
        (messages, tools, effort) => {
          const input = { tools, templateArgs: { effort } };
          const encoded = chat.encodeChat(messages, { ...input, parseSpecial: false });
          expect(chat.decode(encoded, { skipSpecial: false })).toBe(chat.renderChat(messages, input));
          const harmless = JSON.parse(JSON.stringify({ messages, input }).replaceAll('<', '(')) as {
            messages: ChatMessage[];
            input: TemplateInput;
          };
          const own = chat.encodeChat(harmless.messages, { ...harmless.input, parseSpecial: false });
          expect(encoded.filter((id) => control.has(id))).toEqual(own.filter((id) => control.has(id)));
        },
      ),
      { numRuns: 300 },
    );
  });
});
