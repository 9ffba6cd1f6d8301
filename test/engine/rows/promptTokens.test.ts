import { describe, expect, test } from '@jest/globals';
import { promptTokens as promptTokensInParts } from '../../../src/engine/rows/promptTokens.js';
import { drained } from '../../../src/collections/drained.js';
import type { ChatMessage, TemplateInput, Tokenizer } from '../../../src/model/Tokenizer.js';
import type { PromptOptions, Row } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const promptTokens = (...given: Parameters<typeof promptTokensInParts>) => drained(promptTokensInParts(...given));

const LIMITS = { contextTokens: 1000, vocabularySize: 27 };

/** What the tokenizer is given for a row: a text, or a conversation and what goes with it. */
function given(row: Row, options: PromptOptions = {}, hasChatTemplate = true): unknown {
  let seen: unknown;
  const tokenizer: Tokenizer = {
    ...letterTokenizer(),
    hasChatTemplate,
    encode: (text) => ((seen = text), [1]),
    encodeChat: (messages: readonly ChatMessage[], input: TemplateInput = {}) => ((seen = { messages, ...input }), [1]),
  };
  promptTokens(row, options, tokenizer, LIMITS);
  return seen;
}

describe('promptTokens', () => {
  const user = { role: 'user', content: 'q' };
  const system = { role: 'system', content: 's' };

  test('system goes before messages that have none, and makes a conversation of a prompt', () => {
    expect(given({ messages: [user] }, { system: 's' })).toMatchObject({ messages: [system, user] });
    expect(given({ prompt: 'q' }, { system: 's' })).toMatchObject({ messages: [system, user] });
    expect(given({ prompt: 'q' }, { system: 's', chat: false })).toBe('q');
    expect(given({ prompt: 'q' }, { chat: true })).toMatchObject({ messages: [user] });
    const own = { role: 'developer', content: 'own' };
    expect(given({ messages: [own, user] }, { system: 's' })).toMatchObject({ messages: [own, user] });
    expect(promptTokens({ tokens: [3] }, { system: 's' }, letterTokenizer(), LIMITS).tokens).toEqual([3]);
  });

  test('a row says itself whether its text is a message; what it leaves open the run says, then a system message, then the model', () => {
    const conversation = { messages: [user] };
    const [line, plain, raw, message] = [{ chat: 'auto' }, {}, { chat: false }, { chat: true }] as const;
    for (const prompt of [{ prompt: 'q' }, { fields: { a: 'q' } }]) {
      const run = 'fields' in prompt ? { promptTemplate: '{{a}}' } : {};
      for (const own of [plain, raw]) expect(given({ ...prompt, ...own }, run)).toBe('q');
      for (const own of [line, message]) expect(given({ ...prompt, ...own }, run)).toMatchObject(conversation);
      expect(given({ ...prompt, ...line }, run, false)).toBe('q');
      expect(given({ ...prompt, ...line }, { ...run, system: 's' }, false)).toMatchObject({ messages: [system, user] });
      for (const own of [line, plain])
        expect(given({ ...prompt, ...own }, { ...run, system: 's', chat: false })).toBe('q');
      expect(given({ ...prompt, ...raw }, { ...run, system: 's', chat: true })).toBe('q');
      expect(given({ ...prompt, ...message }, { ...run, system: 's', chat: false })).toMatchObject({
        messages: [system, user],
      });
      expect(() => given({ ...prompt, chat: 'no' as never }, run)).toThrow(
        /chat: found "no", expected true, false or auto/,
      );
    }
  });

  test('a template takes the place of whatever prompt a row has', () => {
    expect(given({ fields: { a: 'x', tokens: 7 } }, { promptTemplate: '{{a}} {{tokens}}' })).toBe('x 7');
    expect(given({ id: 5, prompt: 'p' }, { promptTemplate: '{{id}}: {{prompt}}' })).toBe('5: p');
    expect(given({ fields: { a: 'q' } }, { promptTemplate: '{{a}}', system: 's' })).toMatchObject({
      messages: [system, user],
    });
    expect(() => given({ fields: {} }, { promptTemplate: '{{a}}' })).toThrow(
      expect.objectContaining({ rowCode: 'missing-field' }),
    );
    expect(() => given({ fields: 'a' as never }, { promptTemplate: '{{a}}' })).toThrow(/fields: found "a"/);
  });

  test("a row's tools go first, and its variables join the run's", () => {
    const run = { tools: [{ name: 'run' }], templateArgs: { a: 1, b: 1 } };
    expect(given({ messages: [user], templateArgs: { b: 2 } }, run)).toEqual({
      messages: [user],
      parseSpecial: true,
      surplus: { after: LIMITS.contextTokens, count: 0 },
      tools: run.tools,
      templateArgs: { a: 1, b: 2 },
    });
    expect(given({ messages: [user], tools: [{ name: 'row' }] }, run)).toMatchObject({ tools: [{ name: 'row' }] });
  });

  test.each<[TemplateInput, RegExp]>([
    [{ tools: [7] }, /tools: found an array of 1, expected an array of objects/],
    [{ tools: 'x' as never }, /tools: found "x"/],
    [{ templateArgs: { messages: [] } }, /templateArgs: found "messages"/],
    [{ templateArgs: [] as never }, /templateArgs: found an array of 0/],
    [{ templateArgs: { n: 1n } }, /templateArgs: found an object with n, expected what can be written as JSON/],
  ])('%o is refused', (more, message) => {
    expect(() => given({ messages: [user], ...more })).toThrow(
      expect.objectContaining({ rowCode: 'invalid-parameter', message: expect.stringMatching(message) }),
    );
  });

  test('messages carry calls of tools, and only they may lack a text', () => {
    const calls = { role: 'assistant', content: null, tool_calls: [{ name: 'f' }] };
    expect(given({ messages: [calls, { role: 'tool', content: '1', tool_call_id: 'c', name: 'f' }] })).toMatchObject({
      messages: [calls, { role: 'tool', content: '1', tool_call_id: 'c', name: 'f' }],
    });
    for (const wrong of [
      { role: 'assistant', content: null },
      { ...calls, tool_calls: 'f' },
      { ...user, name: 7 },
    ]) {
      expect(() => given({ messages: [wrong as never] })).toThrow(expect.objectContaining({ rowCode: 'invalid-row' }));
    }
  });
});
