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
  ['maxToken', 'maxNewTokens'],
  ['max_length_of_it', undefined],
  ['n', 'samples'],
  ['top_k', 'topK'],
  ['guided_choice', 'responseFormat'],
  ['guided_json', 'responseFormat'],
  ['stopSequences', 'stop'],
  ['system', 'messages of which the first has the role system (or `system`, for all rows)'],
])('%s is %s', (name, meant) => {
  expect(misspelt({ prompt: 'x', [name]: 5 })).toEqual(meant === undefined ? undefined : { name, meant });
});

test('data of its own is left alone', () => {
  const names = [
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
  ];
  for (const value of ['x', 1, 1.5, true])
    expect(misspelt(Object.fromEntries(names.map((name) => [name, value])))).toBeUndefined();
});
