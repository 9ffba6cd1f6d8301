import type { Random } from '../Random.js';
import { edited } from './tree.js';
import { text, word } from './values.js';

const NAMES = [
  'messages',
  'message',
  'bos_token',
  'eos_token',
  'loop',
  'loop.index0',
  'loop.last',
  'ns',
  'ns.x',
  'x',
  'y',
  'add_generation_prompt',
  'tools',
  'documents',
  'undefined_name',
  'messages[0]',
  "message['role']",
  "message['content']",
  'message.content',
  'self',
  'caller',
  'messages|length',
  'true',
  'none',
  'false',
];
const FILTERS = [
  'length',
  'upper',
  'lower',
  'trim',
  'title',
  'capitalize',
  'tojson',
  'tojson(indent=4)',
  'string',
  'int',
  'float',
  'abs',
  'list',
  'first',
  'last',
  'reverse',
  'sort',
  'unique',
  'join',
  "join('x')",
  "join(' ' * 5)",
  "replace('a', 'bb')",
  "replace('', 'x')",
  'indent',
  'indent(1000)',
  "default('d')",
  'items',
  "map(attribute='role')",
  "selectattr('role', 'equalto', 'user')",
  "rejectattr('role')",
  'dictsort',
  'bool',
  'e',
  'safe',
  'nofilter',
  "map('upper')",
  'random',
  'wordcount',
];
const METHODS = [
  'upper()',
  'strip()',
  "split(' ')",
  "split('')",
  "replace('a', 'bbbb')",
  'items()',
  'keys()',
  'values()',
  "get('role')",
  "startswith('a')",
  "rstrip('x')",
  'title()',
  'format(1)',
  'append(1)',
  'nothing()',
  '__class__',
  'constructor',
  'length',
  '__proto__',
  "join(['a', 'b'])",
];
const CALLS = [
  'range(3)',
  'range(0, 10, 0)',
  'range(100000)',
  'range(1000000000)',
  'range(5, 0, -1)',
  'range(1e308)',
  "raise_exception('no')",
  'namespace(x=1)',
  "strftime_now('%d %b %Y')",
  "strftime_now('%' * 100)",
  'dict(a=1)',
  'joiner()',
  'cycler(1, 2)',
  'lipsum()',
  'unknown()',
  'm(1)',
  'm()',
  'super()',
];

/** A Jinja expression. */
function expression(random: Random, depth = 0): string {
  if (depth > 3) return random.pick(NAMES);
  const inner = (): string => expression(random, depth + 1);
  return random.weighted([
    [6, () => random.pick(NAMES)],
    [2, () => JSON.stringify(random.chance(0.9) ? word(random) : text(random))],
    [2, () => String(random.pick([0, 1, 2, 3, -1, 0.5, 100, 100_000, 1e9, 1e300]))],
    [4, () => `${inner()} | ${random.pick(FILTERS)}`],
    [3, () => `${random.pick(NAMES)}.${random.pick(METHODS)}`],
    [2, () => random.pick(CALLS)],
    [
      4,
      () =>
        `(${inner()} ${random.pick(['+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '>=', 'and', 'or', 'in', 'not in'])} ${inner()})`,
    ],
    [2, () => `${inner()} if ${inner()} else ${inner()}`],
    [
      1,
      () =>
        `${inner()} is ${random.pick(['defined', 'string', 'none', 'mapping', 'iterable', 'not none', 'number', 'odd', 'nothing', 'divisibleby(0)', 'equalto(1)', 'callable'])}`,
    ],
    [
      2,
      () =>
        `${random.pick(NAMES)}[${random.pick([':', '1:', '::-1', '::0', '-1', ':100000', '0', "'role'", inner()])}]`,
    ],
    [1, () => `[${random.list(0, 3, inner).join(', ')}]`],
    [1, () => `{${random.list(0, 2, () => `'k': ${inner()}`).join(', ')}}`],
    [1, () => `not ${inner()}`],
  ])();
}

/** A few Jinja statements, well-formed most of the time. */
export function statements(random: Random, depth = 0): string {
  const body = (): string => (depth > 2 ? word(random) : statements(random, depth + 1));
  const of = (): string => expression(random);
  const dash = random.pick(['', '', '-']);
  return random
    .list(1, 3, () =>
      random.weighted([
        [5, () => `{{${dash} ${of()} ${dash}}}`],
        [2, () => word(random)],
        [
          3,
          () =>
            `{%${dash} for ${random.pick(['x', 'message', 'x, y', 'k, v'])} in ${of()}${random.chance(0.2) ? ` if ${of()}` : ''} %}${body()}${random.chance(0.2) ? `{% else %}${body()}` : ''}{% endfor ${dash}%}`,
        ],
        [
          3,
          () =>
            `{%${dash} if ${of()} %}${body()}${random.chance(0.3) ? `{% elif ${of()} %}${body()}` : ''}{% else %}${body()}{% endif %}`,
        ],
        [3, () => `{% set ${random.pick(['x', 'ns.x', 'y', 'messages', 'loop'])} = ${of()} %}`],
        [1, () => `{% set x %}${body()}{% endset %}`],
        [1, () => `{% macro m(x, y=${of()}) %}${body()}{% endmacro %}{{ m(${of()}) }}`],
        [
          1,
          () =>
            `{% set ns = namespace(x=${of()}) %}{% for x in messages %}{% set ns.x = ns.x ~ ${of()} %}{% endfor %}{{ ns.x }}`,
        ],
        [1, () => `{# ${word(random)} #}`],
        [
          1,
          () =>
            `{% ${random.pick(['break', 'continue', 'generation', 'endgeneration', 'raw', 'block a', 'include "x"', 'import "x" as y', 'filter upper', 'call m()', 'do 1', 'endfor', 'nothing'])} %}`,
        ],
        [1, () => `{% for x in range(${random.pick([10, 1000, 100_000])}) %}${body()}{% endfor %}`],
      ])(),
    )
    .join('');
}

/** A template with statements put in somewhere, or its text edited, or another one altogether. */
export function mutatedTemplate(random: Random, template: string): string {
  const bounds = [0, template.length, ...Array.from(template.matchAll(/\{[{%]|[%}]\}/g), ({ index }) => index)];
  const at = random.pick(bounds);
  const to = random.pick(bounds);
  return random.weighted([
    [6, () => template.slice(0, at) + statements(random) + template.slice(at)],
    [3, () => statements(random)],
    [2, () => edited(random, template)],
    [1, () => template.slice(0, Math.min(at, to)) + template.slice(Math.max(at, to))],
    [1, () => template.slice(0, Math.max(at, to)) + template.slice(Math.min(at, to))],
    [1, () => nested(random, template)],
  ])();
}

/** What a parser recurses or goes over again and again for. */
function nested(random: Random, template: string): string {
  const count = random.pick([20, 20, 200, 200, 2000, 2000, 20_000, 300_000]);
  const [open, middle, close] = random.pick([
    ['(', '1', ')'],
    ['[', '', ']'],
    ['not ', '1', ''],
    ['-', '1', ''],
    ['1 + ', '1', ''],
    ['a.', 'b', ''],
    ['{}|', 'length', ''],
    ["'a' ~ ", "'b'", ''],
    ['1 if ', '1', ' else 1'],
    ['{"a":', '1', '}'],
  ] as const);
  return random.weighted([
    [2, () => `{{ ${open.repeat(count)}${middle}${close.repeat(count)} }}${template}`],
    [1, () => '{% if 1 %}'.repeat(count) + template + '{% endif %}'.repeat(count)],
    [
      1,
      () =>
        '{% for x in messages %}'.repeat(Math.min(count, 200)) +
        word(random) +
        '{% endfor %}'.repeat(Math.min(count, 200)),
    ],
    [1, () => random.pick([' ', '{', '\n', '{#', '{{ 1 }}', "{{ '", '%}', 'a']).repeat(count) + template],
  ])();
}
