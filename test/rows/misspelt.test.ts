import { expect, test } from '@jest/globals';
import { misspelt } from '../../src/rows/misspelt.js';

test.each([
  ['max_tokens', 'maxNewTokens'],
  ['max_new_tokens', 'maxNewTokens'],
  ['maxnewtokens', 'maxNewTokens'],
  ['temprature', 'temperature'],
  ['top_p', 'topP'],
  ['TopK', 'topK'],
  ['stop_sequences', 'stop'],
  ['mesages', undefined],
  ['messsages', 'messages'],
  ['repetition_penalty', 'repetitionPenalty'],
  ['template_args', 'templateArgs'],
  ['templateArg', 'templateArgs'],
  ['chat_template_kwargs', 'templateArgs'],
  ['Tools', 'tools'],
])('%s is %s', (name, meant) => {
  expect(misspelt(['prompt', name])).toEqual(meant === undefined ? undefined : { name, meant });
});

test('data of its own is left alone', () => {
  expect(
    misspelt([
      'id',
      'prompt',
      'label',
      'topic',
      'steps',
      'seen',
      'category',
      'temperatures',
      'tokens_used',
      'promptId',
      'sample',
      'priority',
      'constructor',
      '__proto__',
      'n',
      'fields',
      'template',
      'templates',
      'tool',
      'toolset',
    ]),
  ).toBeUndefined();
});
