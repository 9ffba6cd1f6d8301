// Templates drawn from all that Jinja has: expressions over values of all kinds, every filter, test and method, and
// statements in each other.

/** What drawn templates are given; a JSON text, as numbers keep their spelling in it. */
export const VARIABLES = `{
  "s": "Hello World", "e": "", "u": "Ünï 😀 日本 ß ǆ", "b": "  pad \\n\\tded ", "n": "12", "f": "3.75", "h": "<b>&'\\"</b>", "m": "a-b_c.d,e", "t": "line1\\nline2\\r\\n\\nline4",
  "i": 7, "z": 0, "g": -3, "big": 12345678901234567890, "x": 2.5, "y": 1e-05, "w": 3.0, "yes": true, "no": false, "nil": null,
  "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "a", null, 2.5, [1], {"k": 1}], "ll": [[1, "a"], [2, "b"]], "lb": [true, false, 1, 0],
  "d": {"a": 1, "b": [1, 2], "items": "hidden", "c": null, "A": "x"}, "de": {},
  "p": [{"n": "Bob", "a": 3, "t": {"k": "v"}}, {"n": "al", "a": 1}, {"n": "Cy", "a": 2, "t": {"k": "w"}}, {"a": 3, "n": "bob"}]
}`;

const NAMES = [
  ...'seubnfhmt',
  ...'izg',
  'big',
  ...'xyw',
  'yes',
  'no',
  'nil',
  'l',
  'ls',
  'le',
  'lm',
  'll',
  'lb',
  'd',
  'de',
  'p',
  'missing',
];
const LITERALS = [
  "'a'", "'Hello'", "''", "' '", "'l'", "'a b  c'", "'\\n'", "'x%s'", "'%d-%s'", "'{}'", "'{0} {1}'", "'{a}'", "'%5.2f|%-6s|%+d'", "'İıſ'", "'ǆabc ﬁn'", "'\\u00e9\\x41'", '"it\'s"', "'é\\t\\\\'",
  '0', '1', '2', '-1', '3', '10', '1.0', '0.5', '2.5', '-0.0', '1e3', '1e16', '1e-7', '123456.789', '0x1F', '1_000', '2**70', '10',
  'true', 'false', 'none', '[]', '{}', '()', '[1, 2, 3]', "['a', 'B']", '(1, 2)', '(1,)', "{'a': 1, 'b': 2}", "{1: 'x', 2.0: 'y', none: 'z', true: 'w'}", "[('a', 1), ('b', 2)]", 'range(3)', 'range(1, 10, 3)', 'range(5, 0, -2)', 'dict(a=1, b=2)', "namespace(q=1)", "[1.0, 1, true]", "[none, none]", "['', 'x', '']",
]; // prettier-ignore
const METHODS = {
  capitalize: [], casefold: [], center: ['int', 'char?'], count: ['text', 'int?'], endswith: ['text'], expandtabs: ['int?'], find: ['text', 'int?', 'int?'], index: ['text'], isalnum: [], isalpha: [], isascii: [], isdecimal: [], isdigit: [], isidentifier: [], islower: [], isnumeric: [], isprintable: [], isspace: [], istitle: [], isupper: [], join: ['any'], ljust: ['int', 'char?'], lower: [], lstrip: ['text?'], partition: ['text'], removeprefix: ['text'], removesuffix: ['text'], replace: ['text', 'text', 'int?'], rfind: ['text', 'int?'], rindex: ['text'], rjust: ['int', 'char?'], rpartition: ['text'], rsplit: ['text?', 'int?'], rstrip: ['text?'], split: ['text?', 'int?'], splitlines: ['any?'], startswith: ['text', 'int?'], strip: ['text?'], swapcase: [], title: [], upper: [], zfill: ['int'], format: ['any?', 'any?'],
  get: ['any', 'any?'], keys: [], values: [], items: [], copy: [], append: ['any'], pop: ['any?'], update: ['any'],
}; // prettier-ignore
const FILTERS = {
  abs: [], attr: ['text'], batch: ['int', 'any?'], capitalize: [], center: ['int?'], count: [], d: ['any?', 'any?'], default: ['any?', 'any?'], dictsort: ['any?', 'by?', 'any?'], e: [], escape: [], filesizeformat: ['any?'], first: [], float: ['any?'], forceescape: [], format: ['any?', 'any?'], groupby: ['attr', 'any?'], indent: ['int?', 'any?', 'any?'], int: ['any?', 'int?'], items: [], join: ['text?', 'attr?'], last: [], length: [], list: [], lower: [], map: ['filter'], max: ['any?', 'attr?'], min: ['any?', 'attr?'], pprint: [], reject: ['test?', 'any?'], rejectattr: ['attr', 'test?', 'any?'], replace: ['text', 'text', 'int?'], reverse: [], round: ['int?', 'method?'], safe: [], select: ['test?', 'any?'], selectattr: ['attr', 'test?', 'any?'], slice: ['int', 'any?'], sort: ['any?', 'any?', 'attr?'], string: [], sum: ['attr?', 'int?'], title: [], tojson: ['any?', 'int?'], trim: ['text?'], truncate: ['int?', 'any?', 'text?', 'int?'], unique: ['any?', 'attr?'], upper: [], urlencode: [], wordcount: [], xmlattr: ['any?'],
}; // prettier-ignore
const NAMED = {
  indent: ['width', 'first', 'blank'], tojson: ['indent', 'sort_keys', 'ensure_ascii', 'separators'], round: ['precision', 'method'], join: ['d', 'attribute'], sort: ['reverse', 'attribute', 'case_sensitive'], map: ['attribute', 'default'], default: ['default_value', 'boolean'], dictsort: ['by', 'reverse', 'case_sensitive'], truncate: ['length', 'end', 'killwords', 'leeway'], groupby: ['attribute', 'default'], max: ['attribute'], unique: ['attribute', 'case_sensitive'], sum: ['attribute', 'start'], batch: ['linecount', 'fill_with'],
}; // prettier-ignore
const TESTS = ['odd', 'even', 'divisibleby', 'defined', 'undefined', 'none', 'boolean', 'false', 'true', 'integer', 'float', 'lower', 'upper', 'string', 'mapping', 'number', 'sequence', 'iterable', 'callable', 'sameas', 'escaped', 'in', 'eq', 'equalto', 'ne', 'gt', 'ge', 'lt', 'le', 'filter', 'test', '==', '>']; // prettier-ignore
const TAKES = new Set(['divisibleby', 'sameas', 'in', 'eq', 'equalto', 'ne', 'gt', 'ge', 'lt', 'le', '==', '>']);
const ATTRIBUTES = [
  'a',
  'b',
  'n',
  't.k',
  'items',
  'keys',
  'upper',
  'x',
  '0',
  'length',
  'q',
  'start',
  '__class__',
  'append',
  'name',
  'k',
];
const LOOP = [
  'index',
  'index0',
  'first',
  'last',
  'length',
  'revindex',
  'revindex0',
  'previtem',
  'nextitem',
  'depth',
  'cycle("o", "e")',
  'changed(v)',
];
const SPECS = [
  '',
  's',
  '>8',
  '^9',
  '*<6',
  'd',
  '05d',
  '+d',
  ',',
  'x',
  '#x',
  '.2f',
  '10.3e',
  'g',
  '%',
  '.3',
  '08.2f',
  '_',
  'b',
  '<5',
  '.1%',
  'e',
  'c',
  '>+8.1f',
  '=+8',
  ',.2f',
];
const PERCENTS = [
  '%s',
  '%d',
  '%r',
  '%5s',
  '%-5s|',
  '%05d',
  '%.2f',
  '%x',
  '%e',
  '%g',
  '%c',
  '%i%%',
  '%+.1f',
  '% d',
  '%#x',
  '%(a)s',
  '%.3s',
  '%*d',
  '%X',
  '%o',
  '%u',
  '%G',
  '%.0f',
  '%.10g',
  '%s %s',
];

/** @param random as of a campaign */
export class TemplateDrawer {
  constructor(random) {
    this.random = random;
    this.locals = [];
  }

  pick(list) {
    return this.random.pick(list);
  }

  chance(share) {
    return this.random.whole(0, 999) < share * 1000;
  }

  template() {
    this.locals = [];
    if (this.chance(0.6)) return `{{ ${this.expression(3)} }}`;
    return Array.from({ length: this.random.whole(1, 4) }, () => this.statement(3)).join(
      this.pick(['', '\n', ' ', '|']),
    );
  }

  name() {
    return this.pick(this.locals.length > 0 && this.chance(0.5) ? this.locals : NAMES);
  }

  atom() {
    return this.chance(0.55) ? this.name() : this.pick(LITERALS);
  }

  argument(kind, depth) {
    switch (kind) {
      case 'int':
        return this.chance(0.8)
          ? this.pick(['0', '1', '2', '3', '5', '12', '-1', '-2', '80', 'none', 'true'])
          : this.expression(depth);
      case 'text':
        return this.chance(0.8)
          ? this.pick([
              "'a'",
              "'l'",
              "' '",
              "'lo'",
              "''",
              "'\\n'",
              "'Hello'",
              "'xy'",
              's',
              'e',
              "'-'",
              "', '",
              "'😀'",
              "('a', 'H')",
            ])
          : this.expression(depth);
      case 'char':
        return this.pick(["'*'", "'.'", "'é'", "'ab'"]);
      case 'attr':
        return this.pick(["'a'", "'n'", "'t.k'", "'0'", '0', '1', "'n,a'", "'x'", "'t'"]);
      case 'by':
        return this.pick(["'key'", "'value'", "'x'"]);
      case 'method':
        return this.pick(["'common'", "'ceil'", "'floor'", "'x'"]);
      case 'filter':
        return this.chance(0.9) ? `'${this.pick(Object.keys(FILTERS))}'` : this.expression(depth);
      case 'test':
        return `'${this.pick(TESTS)}'`;
      default:
        return this.expression(depth);
    }
  }

  arguments(kinds, depth, names = []) {
    const args = [];
    for (const kind of kinds) {
      if (kind.endsWith('?') && this.chance(0.6)) break;
      args.push(this.argument(kind.replace('?', ''), depth));
    }
    if (names.length > 0 && this.chance(0.25)) {
      const name = this.pick(names);
      const kind =
        { attribute: 'attr', by: 'by', method: 'method', d: 'text', end: 'text' }[name] ??
        (this.chance(0.5) ? 'int' : 'any');
      args.push(`${name}=${this.argument(kind, depth)}`);
    }
    return args.join(', ');
  }

  expression(depth) {
    if (depth <= 0) return this.atom();
    const inner = () => this.expression(depth - 1);
    switch (this.random.whole(0, 21)) {
      case 0:
      case 1:
      case 2:
        return this.atom();
      case 3:
      case 4:
      case 5:
      case 6: {
        const filter = this.pick(Object.keys(FILTERS));
        const args = this.arguments(FILTERS[filter], depth - 1, NAMED[filter]);
        const more = this.chance(0.4)
          ? `|${this.pick(['list', 'join', 'length', 'string', 'tojson', 'first', 'last', 'upper', 'sort', 'reverse|list'])}`
          : '';
        return `(${inner()})|${filter}${args === '' ? '' : `(${args})`}${more}`;
      }
      case 7:
      case 8:
      case 9: {
        const method = this.pick(Object.keys(METHODS));
        return `(${inner()}).${method}(${this.arguments(METHODS[method], depth - 1)})`;
      }
      case 10: {
        const test = this.pick(TESTS.filter((each) => /\w/.test(each)));
        return `(${inner()} is ${this.chance(0.3) ? 'not ' : ''}${test}${TAKES.has(test) ? this.pick([`(${inner()})`, ` ${this.atom().replace(/^-/, '')}`]) : ''})`;
      }
      case 11:
      case 12:
        if (this.chance(0.1)) return `(${inner()} ** ${this.pick(['2', '0', '-1', '0.5', 'x', '3', 'true', '1.0'])})`;
        return `(${inner()} ${this.pick(['+', '-', '*', '/', '//', '%', '~', '~'])} ${inner()})`;
      case 13:
        return `(${inner()} ${this.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} ${inner()}${this.chance(0.2) ? ` ${this.pick(['==', '<', 'in'])} ${inner()}` : ''})`;
      case 14:
        return `(${inner()} ${this.pick(['and', 'or'])} ${this.chance(0.3) ? 'not ' : ''}${inner()})`;
      case 15:
        return `(${inner()} if ${inner()}${this.chance(0.7) ? ` else ${inner()}` : ''})`;
      case 16:
        return `(${inner()})[${this.chance(0.5) ? inner() : `${this.pick(['', '1', '-2', '0'])}:${this.pick(['', '2', '-1', '5'])}${this.pick(['', '', ':', ':-1', ':2', ':0'])}`}]`;
      case 17:
        return `(${inner()}).${this.pick(ATTRIBUTES.filter((each) => !/^\d|\./.test(each)))}`;
      case 18:
        return this.pick([`[${inner()}, ${inner()}]`, `{'k': ${inner()}, ${inner()}: 1}`, `(${inner()}, ${inner()})`]);
      case 19:
        return `'{:${this.pick(SPECS)}}${this.pick(['', ' {}', '{0}', '{a}', '{!r}', '{0[a]}', '{0.b}'])}'.format(${inner()}, ${inner()})`;
      case 20:
        return `('${this.pick(PERCENTS)}' % ${this.pick([inner(), `(${inner()},)`, `(${inner()}, ${inner()})`, 'd'])})`;
      default:
        return `${this.pick(['-', '+', 'not '])}(${inner()})`;
    }
  }

  body(depth, names) {
    const before = this.locals;
    this.locals = [...before, ...names];
    const body = Array.from({ length: this.random.whole(1, 2) }, () => this.statement(depth - 1)).join('');
    this.locals = before;
    return body;
  }

  open(words) {
    return `${this.pick(['{%', '{%', '{%-', '  {%', '\n{%', '{%+'])} ${words} ${this.pick(['%}', '%}', '-%}', '%}\n', '%} ', '+%}'])}`;
  }

  statement(depth) {
    if (depth <= 0)
      return this.pick([
        `{{ ${this.expression(1)} }}`,
        '{{ v }}',
        'text',
        ' \n',
        `{{- ${this.name()} -}}`,
        '{# note #}',
        '{#- note -#}\n',
      ]);
    const expression = () => this.expression(2);
    switch (this.random.whole(0, 12)) {
      case 0:
      case 1: {
        const loop = this.chance(0.6) ? `{{ loop.${this.pick(LOOP)} }}` : '';
        const target = this.pick(['v', 'v', 'v', 'v, k', '(v, k)']);
        const over = this.chance(0.5)
          ? this.pick([
              'l',
              'ls',
              'lm',
              'd',
              'd.items()',
              'p',
              'u',
              'range(4)',
              'll',
              'de',
              'le',
              'd|dictsort',
              'missing',
              'p|selectattr("t")',
            ])
          : expression();
        const test = this.chance(0.3) ? ` if ${expression()}` : '';
        const exit = this.chance(0.2)
          ? `{% if ${expression()} %}{% ${this.pick(['break', 'continue'])} %}{% endif %}`
          : '';
        const otherwise = this.chance(0.3) ? `{% else %}${this.body(depth, [])}` : '';
        return `${this.open(`for ${target} in ${over}${test}`)}${loop}${exit}${this.body(depth, ['v', 'k'])}${otherwise}${this.open('endfor')}`;
      }
      case 2:
        return `{% for v in [[1, [2, 3]], 4, [[5]]] recursive %}{{ loop.depth }}{% if v is iterable %}{{ loop(v) }}{% else %}${this.body(depth, ['v'])}{% endif %}{% endfor %}`;
      case 3:
      case 4:
        return `${this.open(`if ${expression()}`)}${this.body(depth, [])}${this.chance(0.3) ? `{% elif ${expression()} %}${this.body(depth, [])}` : ''}${this.chance(0.5) ? `{% else %}${this.body(depth, [])}` : ''}${this.open('endif')}`;
      case 5:
      case 6: {
        const name = this.pick(['v', 'k', 's', 'l', 'a1']);
        const set = this.pick([
          `{% set ${name} = ${expression()} %}`,
          `{% set ${name}, a2 = ${expression()}, ${expression()} %}`,
          `{% set ${name} %}${this.body(depth, [])}{% endset %}`,
          `{% set ${name} | upper %}${this.body(depth, [])}{% endset %}`,
        ]);
        return `${set}{{ ${name} }}`;
      }
      case 7: {
        const parameters = this.pick(['', 'v', 'v, k=1', 'v=s, k=v', 'v, k']);
        const args = this.pick([
          '',
          expression(),
          `${expression()}, k=${expression()}`,
          `k=${expression()}`,
          `${expression()}, ${expression()}, 3`,
          `v=1, q=2`,
          `*l`,
          `**{'v': 1}`,
        ]);
        const extra = this.pick(['', '{{ varargs }}', '{{ kwargs }}', '{{ caller() if caller }}', '{{ m.name }}']);
        return `{% macro m(${parameters}) %}${this.body(depth, ['v', 'k'])}${extra}{% endmacro %}{{ m(${args}) }}`;
      }
      case 8:
        return `{% macro c(v) %}[{{ caller(v) }}]{% endmacro %}{% call(k${this.pick(['', '=2', ', v=3'])}) c(${expression()}) %}${this.body(depth, ['k'])}{% endcall %}`;
      case 9:
        return `{% set ns = namespace(q=0, r=${this.atom()}) %}{% for v in ${this.pick(['l', 'ls', 'u'])} %}{% set ns.q = ns.q + ${this.pick(['1', 'v', 'loop.index'])} %}{% endfor %}{{ ns.q }}{{ ns }}`;
      case 10:
        return `{% with v = ${expression()}, k = v %}${this.body(depth, ['v', 'k'])}{% endwith %}{{ v }}`;
      case 11:
        return `{% filter ${this.pick(['upper', 'trim', 'replace("a", "b")', 'indent', 'title|length', 'escape', 'list'])} %}${this.body(depth, [])}{% endfilter %}`;
      default:
        return this.pick([
          `{% generation %}${this.body(depth, [])}{% endgeneration %}`,
          `{% raw %}{{ x }}{% endraw %}`,
          `{{ '${this.pick(['%d', '%Y', '%B %e', '%-d/%m', '%H:%M', '%j %U %W %V %G %u', '%a %A %b %p %I', '%c %x %X', '%y%%', '%q', '%^a %_d'])}'|string and strftime_now('${this.pick(['%d %B %Y', '%j-%U-%W-%V-%G', '%c', '%x %X %p', '%-d %e %k %l', '%D %F %T %R %r', '%h%n%t%%', '%Z%z%C%g%s'])}') }}`,
        ]);
    }
  }
}
