import { expect, test } from '@jest/globals';
import { withObjects } from '../../../src/engine/tools/withObjects.js';
import type { ChatMessage } from '../../../src/model/Tokenizer.js';
import { open } from '../../model/tokenizer/fixtures.js';

const called = (given: unknown): readonly ChatMessage[] => [
  { role: 'user', content: 'a' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: given } }],
  },
];
const rendered = (calls: string, given: unknown): string => {
  const template = `{% for message in messages %}{% if message.tool_calls %}{% for call in message.tool_calls %}${calls}{% endfor %}{% endif %}{% endfor %}`;
  const tokenizer = open('smollm', 'gguf', { 'tokenizer.chat_template': template });
  return tokenizer.renderChat(withObjects(called(given), tokenizer), { tools: [] });
};

test.each([
  [
    'one that writes JSON gets objects',
    '{{ call.function.arguments | tojson }}',
    '{"a":1.0,"b":"é"}',
    '{"a": 1.0, "b": "é"}',
  ],
  [
    'so does one that goes through them',
    '{% for k, v in call.function.arguments | items %}{{ k }}={{ v }};{% endfor %}',
    '{"a":1,"b":2}',
    'a=1;b=2;',
  ],
  ['nothing is an object of nothing', '{{ call.function.arguments | tojson }}', '', '{}'],
  [
    'one that looks for texts gets what there is',
    '{% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}no{% endif %}',
    '{"a":1}',
    '{"a":1}',
  ],
  ['one that puts them between texts gets texts', "{{ '<' + call.function.arguments + '>' }}", '{"a":1}', '<{"a":1}>'],
  ['what is no JSON stays', '{{ call.function.arguments | tojson }}', 'not {', '"not {"'],
  ['objects stay objects', '{{ call.function.arguments | tojson }}', { a: [1, null] }, '{"a": [1, null]}'],
])('arguments of calls: %s', (_, calls, given, expected) => {
  expect(rendered(calls, given)).toBe(expected);
});
