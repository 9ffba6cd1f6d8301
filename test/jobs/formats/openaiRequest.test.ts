import { expect, test } from '@jest/globals';
import { RowError } from '../../../src/errors/RowError.js';
import { askedProblem, CHAT, rowOfBody } from '../../../src/jobs/formats/openaiRequest.js';

const row = (body: object): object => rowOfBody(CHAT, { ...body }, { id: 'a', line: 1 });
const hello = [{ role: 'user', content: 'Hello' }];

test('messages of a developer are those of the system; parts of text and refusals are put together', () => {
  const messages = [
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    },
    { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
    { role: 'user', content: [] },
  ];
  expect(row({ messages })).toMatchObject({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'ab' },
      { role: 'assistant', content: 'no' },
      { role: 'user', content: '' },
    ],
  });
});

test.each([
  [{ type: 'image_url', image_url: { url: 'x' } }, 'a picture'],
  [{ type: 'input_audio', input_audio: {} }, 'a sound'],
  [{ type: 'file', file: {} }, 'a file'],
])('%j is refused by name', (part, what) => {
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'See' }, part] }];
  const found = row({ messages }) as { readonly error: { readonly code: string; readonly message: string } };
  expect(found.error.code).toBe('unsupported-content');
  expect(found.error.message).toContain(`messages[0].content[1]: found ${what}`);
});

test.each([
  ['none', { enable_thinking: false }],
  ['minimal', { enable_thinking: true, reasoning_effort: 'low' }],
  ['medium', { enable_thinking: true, reasoning_effort: 'medium' }],
  ['xhigh', { enable_thinking: true, reasoning_effort: 'high' }],
])('an effort of %s is a variable of the chat template', (effort, templateArgs) => {
  expect(row({ messages: hello, reasoning_effort: effort })).toMatchObject({ templateArgs });
});

test('variables that are given count more, and an effort that is none is refused', () => {
  const chat_template_kwargs = { enable_thinking: false, more: 1 };
  expect(row({ messages: hello, reasoning_effort: 'high', chat_template_kwargs })).toMatchObject({
    templateArgs: { enable_thinking: false, more: 1, reasoning_effort: 'high' },
  });
  expect(row({ messages: hello, reasoning_effort: null })).not.toHaveProperty('templateArgs');
  for (const effort of ['much', 3, 'constructor'])
    expect(() => row({ messages: hello, reasoning_effort: effort })).toThrow(RowError);
});

describe('a problem in the words of its request', () => {
  test.each([
    ['topP: found 7, expected …', 'top_p: found 7, expected …', 'top_p'],
    ['templateArgs.messages: found …', 'chat_template_kwargs.messages: found …', 'chat_template_kwargs'],
    ['tokens: found 99999999, expected ids', 'token ids: found 99999999, expected ids', null],
    ['body.input: found 5', 'body.input: found 5', 'input'],
    ['the prompt is too long', 'the prompt is too long', null],
  ])('%s', (message, told, param) => {
    expect(askedProblem(message)).toEqual({ message: told, param });
  });
});
