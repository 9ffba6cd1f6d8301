import { readFileSync } from 'node:fs';
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
  'replace',
  'indent',
  'default',
  'items',
  'keys',
  'values',
  'map',
  'select',
  'selectattr',
  'rejectattr',
  'dictsort',
  'bool',
  'e',
  'safe',
  'nofilter',
  'random',
  'wordcount',
  'tojson(indent=4)',
  "join('x')",
  "join(' ' * 5)",
  "replace('a', 'bb')",
  "replace('', 'x')",
  'indent(1000)',
  "default('d')",
  "map(attribute='role')",
  "selectattr('role', 'equalto', 'user')",
  "rejectattr('role')",
  "map('upper')",
];
/** What filters and methods are told by name. */
const KEYWORDS = [
  'indent',
  'ensure_ascii',
  'sort_keys',
  'separators',
  'separator',
  'default',
  'boolean',
  'reverse',
  'case_sensitive',
  'attribute',
  'width',
  'first',
  'blank',
  'count',
  'by',
  'x',
];
const METHODS = [
  'upper',
  'lower',
  'strip',
  'lstrip',
  'rstrip',
  'title',
  'capitalize',
  'split',
  'replace',
  'startswith',
  'endswith',
  'items',
  'keys',
  'values',
  'get',
  'dictsort',
  'format',
  'append',
  'join',
  'nothing',
];
const MEMBERS = ['__class__', 'constructor', 'length', '__proto__', 'role', 'content', 'x', '0', 'replace'];
const TESTS = [
  'boolean',
  'callable',
  'odd',
  'even',
  'false',
  'true',
  'none',
  'string',
  'number',
  'integer',
  'iterable',
  'mapping',
  'sequence',
  'lower',
  'upper',
  'defined',
  'undefined',
  'equalto(1)',
  "eq('a')",
  'divisibleby(0)',
  'nothing',
];
const TEXTS = [
  "''",
  "'a'",
  "'role'",
  "'key'",
  "'value'",
  "'aXb Xc'",
  "'a\\nb\\n\\nc'",
  "'\\x41\\u00e9'",
  "'\\xZZ'",
  "'é漢'",
];
const NUMBERS = ['0', '1', '2', '-1', '1.5', '-0.0', '1e3', '100000', '3.', '99999999999999999999'];

/** A value that is written down. */
function literal(random: Random): string {
  return random.weighted([
    [4, () => random.pick(TEXTS)],
    [4, () => random.pick(NUMBERS)],
    [2, () => random.pick(['true', 'false', 'none'])],
    [2, () => `[${random.list(0, 3, () => random.pick([...TEXTS, ...NUMBERS])).join(', ')}]`],
    [2, () => `(${random.list(1, 2, () => random.pick(TEXTS)).join(', ')}, )`],
    [
      2,
      () =>
        `{${random.list(0, 3, () => `${random.pick([...TEXTS, '1'])}: ${random.pick([...TEXTS, ...NUMBERS])}`).join(', ')}}`,
    ],
    [1, () => `[['a', 1], ['B', ${random.pick(NUMBERS)}], ${random.pick(TEXTS)}]`],
    [1, () => `[{'role': 'a', 'x': {'y': 2}}, {'role': ${random.pick([...TEXTS, ...NUMBERS])}}]`],
  ])();
}

/** Arguments, by place and by name, mostly of a kind that nobody expects. */
function called(random: Random, argument: () => string): string {
  const all = [
    ...random.list(0, 3, argument),
    ...random.list(0, 2, () => `${random.pick(KEYWORDS)}=${argument()}`),
    ...(random.chance(0.05) ? [`*${argument()}`] : []),
    ...(random.chance(0.05) ? [`**${argument()}`] : []),
  ];
  return `(${all.join(', ')})`;
}

const CALLS = [
  'range(3)',
  'range(0, 10, 0)',
  'range(100000)',
  'range(1000000000)',
  'range(5, 0, -1)',
  'range(1e308)',
  "raise_exception('no')",
  'namespace(x=1)',
  "namespace({'x': 1})",
  "namespace(['xy', ['x', 2]], y=3)",
  'namespace(1, 2)',
  "strftime_now('%Y %y %m %d %H %I %M %S %p %B %b %A %a %% %Q')",
  "strftime_now('%' * 100)",
  'strftime_now(1)',
  'raise_exception(1)',
  'dict(a=1)',
  'joiner()',
  'cycler(1, 2)',
  'lipsum()',
  'unknown()',
  'm(1)',
  'm()',
  'super()',
];

/** Filters and methods as their documentation has them: arguments of the right kind, or now and then of another. */
function sensible(random: Random): string {
  const any = (right: readonly string[]): string => (random.chance(0.85) ? random.pick(right) : literal(random));
  const flag = (): string => any(['true', 'false']);
  const whole = (): string => any(['0', '1', '2', '-1']);
  const word = (): string => any(TEXTS);
  const list = (): string =>
    any([
      "['b', 'A', 'a']",
      '[3, 1, 2]',
      '[2, 1.5]',
      '[true, false]',
      '[none, none]',
      '[x, y]',
      '[[1, 2], [3]]',
      'messages',
    ]);
  const objects = (): string =>
    any(["[{'x': 2, 'y': 'b'}, {'x': 1}]", "[{'x': [5, 6]}, {'x': {'y': 1}}]", "[['b', 1], ['a', 2]]", 'messages']);
  const object = (): string =>
    any(["{'b': 1, 'a': 'é', 'B': 0}", "{'a': [1, {'b': none}], 'c': undefined_name}", '{}', 'messages[0]']);
  const named = (...names: (readonly [string, () => string])[]): string =>
    `(${names.flatMap(([name, make]) => (random.chance(0.5) ? [`${name}=${make()}`] : [])).join(', ')})`;
  const placed = (...makes: (() => string)[]): string =>
    `(${makes
      .slice(0, random.below(makes.length + 1))
      .map((make) => make())
      .join(', ')})`;
  const path = (): string => any(["'x'", "'x.y'", "'x.0'", "'role'", '0', "'1'"]);
  const separators = (): string => any(["(',', ':')", "[',', ': ']", "(',', 1)", "(',', )", 'none']);
  return random.pick([
    () =>
      `${any([object(), list()])} | tojson${named(['indent', whole], ['ensure_ascii', flag], ['sort_keys', flag], ['separators', separators])}`,
    () =>
      `${object()} | dictsort${named(['case_sensitive', flag], ['by', () => any(["'key'", "'value'"])], ['reverse', flag])}`,
    () => `${object()} | dictsort${placed(flag, () => any(["'key'", "'value'"]), flag)}`,
    () => `${list()} | sort${placed(flag, flag)}`,
    () => `${objects()} | sort${named(['reverse', flag], ['case_sensitive', flag], ['attribute', path])}`,
    () => `${objects()} | map${named(['attribute', path], ['default', word])}`,
    () =>
      `${objects()} | ${random.pick(['selectattr', 'rejectattr'])}${placed(path, () => any(["'eq'", "'defined'", "'lower'"]), word)}`,
    () => `${list()} | join${placed(word)}`,
    () => `${word()} | indent${placed(whole, flag, flag)}`,
    () => `${word()} | replace${placed(word, word, whole)}`,
    () =>
      `${any([...TEXTS, ...NUMBERS, 'true', "'12'", "'1.5x'"])} | ${random.pick(['int', 'float', 'abs', 'string'])}${random.chance(0.5) ? '' : placed(whole)}`,
    () => `${any(['undefined_name', "''", '0', "'a'"])} | default${placed(word, flag)}`,
    () => `${word()}.split${placed(() => any([...TEXTS, 'none']), whole)}`,
    () => `${word()}.replace${placed(word, word, whole)}`,
    () => `${word()}.replace(${word()}, ${word()}, count=${whole()})`,
    () =>
      `${word()}.${random.pick(['startswith', 'endswith'])}(${any([...TEXTS, "['x', 'a', '']", "['q', 'c']", '[1]'])})`,
    () => `${object()}.get${placed(word, word)}`,
    () =>
      `${any([list(), word()])}[${any(['', '0', '-1', '2'])}:${any(['', '1', '-1', '-9'])}${random.chance(0.5) ? '' : `:${any(['1', '2', '-1', '-2'])}`}]`,
    () => `${any([list(), object(), word()])}[${any(['0', '-1', '9', "'a'", "'x'"])}]`,
    () =>
      `(${any(NUMBERS)} ${random.pick(['+', '-', '*', '/', '//', '%', '**', '<', '>', '<=', '>=', '==', '!='])} ${any(NUMBERS)})`,
    () => `(${any(TEXTS)} ${random.pick(['+', '~', 'in', 'not in', '<', '=='])} ${any([...TEXTS, list(), object()])})`,
    () =>
      `range${placed(
        whole,
        () => any(['3', '-3']),
        () => any(['1', '-1', '2']),
      )}`,
  ])();
}

/** A Jinja expression. */
function expression(random: Random, depth = 0): string {
  if (depth > 3) return random.pick(NAMES);
  const inner = (): string => expression(random, depth + 1);
  const argument = (): string => (random.chance(0.7) ? literal(random) : inner());
  const operand = (): string => (random.chance(0.5) ? `(${literal(random)})` : inner());
  return random.weighted([
    [6, () => random.pick(NAMES)],
    [3, () => literal(random)],
    [8, () => sensible(random)],
    [4, () => `${operand()} | ${random.pick(FILTERS).replace(/\(.*/, '')}${called(random, argument)}`],
    [4, () => `${operand()}.${random.pick(METHODS)}${called(random, argument)}`],
    [1, () => `${operand()}.${random.pick(MEMBERS)}`],
    [2, () => `m${called(random, argument)}`],
    [2, () => JSON.stringify(random.chance(0.9) ? word(random) : text(random))],
    [2, () => String(random.pick([0, 1, 2, 3, -1, 0.5, 100, 100_000, 1e9, 1e300]))],
    [4, () => `${inner()} | ${random.pick(FILTERS)}`],
    [2, () => random.pick(CALLS)],
    [
      4,
      () =>
        `(${operand()} ${random.pick(['+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '>=', 'and', 'or', 'in', 'not in'])} ${operand()})`,
    ],
    [2, () => `${inner()} if ${inner()} else ${inner()}`],
    [1, () => `${operand()} is ${random.chance(0.2) ? 'not ' : ''}${random.pick(TESTS)}`],
    [
      2,
      () =>
        `${operand()}[${random.pick([`${argument()}:${argument()}:${argument()}`, `${argument()}:`, '1:2:3:4', '0, 1', ':', '1:', '::-1', '::0', '-1', ':100000', '0', "'role'", inner()])}]`,
    ],
    [1, () => `[${random.list(0, 3, inner).join(', ')}]`],
    [1, () => `{${random.list(0, 2, () => `'k': ${inner()}`).join(', ')}}`],
    [1, () => `not ${inner()}`],
    [1, () => `${random.pick(['-', '+'])}${operand()}`],
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
        [1, () => `{% set ${random.pick(['x, y', 'x.y', "ns['x']", '1', 'x, y.z', '(x, y)'])} = ${of()} %}`],
        [
          1,
          () => `{% filter ${random.pick(FILTERS).replace(/\(.*/, '')}${called(random, of)} %}${body()}{% endfilter %}`,
        ],
        [
          2,
          () =>
            `{% macro m(${random.pick(['', 'a', 'a, b=1', 'a=x, caller=none', '*a', '**a', '1', 'a, a'])}) %}${body()}{{ ${random.pick(['varargs', 'kwargs', 'caller()', 'caller(1, x=2)', 'name', 'a'])} }}{% endmacro %}` +
            `{% call${random.pick(['', '(x)', '(x, y=2)', '(x=1, y)'])} m${called(random, of)} %}${body()}{{ x }}{% endcall %}`,
        ],
        [
          1,
          () =>
            `{% for ${random.pick(['x', 'x, y', 'x, y, z', '(x, y)', 'x.y', '1'])} in ${random.pick([of(), "[['a', 1], ['b', 2]]", "[{'x': 1}]", "{'a': 1}.items()"])} %}${body()}{% if ${of()} %}{% ${random.pick(['break', 'continue'])} %}{% endif %}{{ loop.${random.pick(['first', 'last', 'index', 'index0', 'revindex', 'revindex0', 'length', 'previtem', 'nextitem', 'nothing'])} }}{% endfor %}`,
        ],
        [1, () => `{%- ${random.pick(['if', 'set', 'for'])} -%}`],
        [1, () => `{{- ${of()} -}}{%+ if ${of()} %}  \n{%- endif +%}\n`],
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

/** Templates that between them reach what a long run of scripts/nightly/fuzzTemplates.mjs reached. */
const known = JSON.parse(readFileSync(new URL('../templates.json', import.meta.url), 'utf8')) as readonly string[];

/** A template with statements put in somewhere, or its text edited, or another one altogether. */
export function mutatedTemplate(random: Random, template: string): string {
  return random.chance(0.3) && known.length > 0
    ? editedTemplate(random, random.pick(known))
    : editedTemplate(random, template);
}

/** The same without others that are known. */
export function editedTemplate(random: Random, template: string): string {
  const bounds = [0, template.length, ...Array.from(template.matchAll(/\{[{%]|[%}]\}/g), ({ index }) => index)];
  const at = random.pick(bounds);
  const to = random.pick(bounds);
  return random.weighted([
    [2, () => template],
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
