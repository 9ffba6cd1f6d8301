/** Tools with parameters of every type, and calls of them. */
const VALUES = {
  text: { type: 'string' },
  whole: { type: 'integer' },
  number: { type: 'number' },
  flag: { type: 'boolean' },
  none: { type: 'null' },
  list: { type: 'array', items: { type: 'string' } },
  nested: {
    type: 'object',
    properties: {
      text: { type: 'string' },
      list: { type: 'array', items: { type: 'object' } },
      deep: { type: 'object' },
    },
  },
};
export const TOOLS = [
  ['get_weather', VALUES],
  ['math.factorial', { whole: VALUES.whole }],
  ['no-arguments', {}],
  ['Say', { text: VALUES.text, nested: VALUES.nested }],
].map(([name, properties]) => ({
  type: 'function',
  function: { name, description: `What ${name} does.`, parameters: { type: 'object', properties, required: [] } },
}));

const TEXTS = [
  '',
  'Köln',
  '東京',
  '😀',
  'a b',
  ' a ',
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
  '</s>',
  'true',
  '5',
  '<b>',
  '\t',
  '\\n',
  '\\"',
  '"}',
  '{"name": "',
  '`',
  'é',
  '\u2028',
  'call:',
];

export function drawnCalls(random, form) {
  const below = (count) => Math.floor(random() * count);
  const of = (list) => list[below(list.length)];
  const text = () => Array.from({ length: below(5) }, () => of(TEXTS)).join('');
  const name = () => of(['a', 'b_1', 'Key', 'id']);
  const plain = () => of([text, () => below(100), () => -below(1e6) / 64, () => random() < 0.5, () => null])();
  const value = (depth) =>
    of([
      plain,
      plain,
      ...(depth > 2 ? [] : [() => Array.from({ length: below(3) }, () => value(depth + 1)), () => members(depth + 1)]),
    ])();
  const members = (depth) => Object.fromEntries(Array.from({ length: below(3) }, () => [name(), value(depth)]));
  const drawn = {
    text,
    whole: () => below(2 ** 40) - 2 ** 39,
    number: () => below(1e6) / 128 - 1000,
    flag: () => random() < 0.5,
    none: () => null,
    list: () => Array.from({ length: below(4) }, plain),
    nested: () => ({
      ...(random() < 0.5 && { text: text() }),
      ...(random() < 0.5 && { list: Array.from({ length: below(3) }, () => members(1)) }),
      ...(random() < 0.5 && { deep: members(0) }),
    }),
  };
  const one = form === 'llama3' || form === 'gpt-oss';
  return Array.from({ length: one ? 1 : 1 + below(3) }, () => {
    const { name: called, parameters } = of(TOOLS).function;
    const names = Object.keys(parameters.properties).filter(() => random() < 0.6);
    return { name: called, arguments: Object.fromEntries(names.map((each) => [each, drawn[each]()])) };
  });
}
