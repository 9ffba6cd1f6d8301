import { bound } from './arguments.js';
import { hasPairs, isSpace, lengthOf, lstrip, rstrip, titleOf } from './characters.js';
import { PythonError, typeError, unsupported, valueError } from './errors.js';
import { iterate } from './iterate.js';
import { make, made, scan, spend } from './meter.js';
import { index } from './numbers.js';
import { type Access, strFormat } from './strFormat.js';
import { Dict, type Named, textOf, Tuple, typeName, type Value } from './values.js';

type Given = readonly (Value | undefined)[];

/** A method of texts: its parameters, as `bound` has them, and what it does. */
type Method = readonly [parameters: readonly string[], run: (text: string, args: Given) => Value];

function textArgument(value: Value | undefined, what: string): string {
  const text = textOf(value ?? null);
  if (text === undefined) throw typeError(`${what} must be str, not ${typeName(value ?? null)}`);
  return text;
}

/** The characters of a text, which may be two units long. */
export function charactersOf(text: string): readonly string[] {
  make(text.length);
  return Array.from(text);
}

export function slicedText(text: string, start: number, stop: number): string {
  if (!hasPairs(text)) return text.slice(start, Math.max(start, stop));
  return charactersOf(text).slice(start, Math.max(start, stop)).join('');
}

/** Where a part of a text begins and ends, of numbers that may count from the end. */
function bounds(text: string, from: Value | undefined, to: Value | undefined): [number, number] {
  const length = lengthOf(text);
  const at = (value: Value | undefined, otherwise: number): number => {
    if (value === undefined || value === null) return otherwise;
    const number = index(value);
    return number < 0 ? Math.max(0, number + length) : number;
  };
  return [at(from, 0), Math.min(length, at(to, length))];
}

function find(text: string, [part, from, to]: Given, last: boolean): number {
  const wanted = textArgument(part, 'argument');
  const [start, stop] = bounds(text, from, to);
  if (start > stop) return -1;
  const within = slicedText(text, start, stop);
  const at = last ? within.lastIndexOf(wanted) : within.indexOf(wanted);
  return at < 0 ? -1 : start + lengthOf(within.slice(0, at));
}

function found(at: number): number {
  if (at < 0) throw valueError('substring not found');
  return at;
}

function affix(ends: boolean): Method {
  return [
    ['/part', '/start?', '/end?'],
    (text, [part, from, to]) => {
      const [start, stop] = bounds(text, from, to);
      if (start > stop) return false;
      const within = from === undefined ? text : slicedText(text, start, stop);
      const parts = part instanceof Tuple ? part.items : [part];
      return parts.some((each) => {
        const affixed = textArgument(each, ends ? 'endswith first arg' : 'startswith first arg');
        return ends ? within.endsWith(affixed) : within.startsWith(affixed);
      });
    },
  ];
}

/** Takes characters from a text's ends: blanks, or those of a set. */
export function strip(text: string, chars: Value | undefined, left: boolean, right: boolean): string {
  if (chars === undefined || chars === null) {
    const begun = left ? lstrip(text) : text;
    return right ? rstrip(begun) : begun;
  }
  const set = new Set(textArgument(chars, 'strip arg'));
  const characters = hasPairs(text) ? charactersOf(text) : text;
  let [from, to] = [0, characters.length];
  while (left && from < to && set.has(characters[from] ?? '')) from++;
  while (right && to > from && set.has(characters[to - 1] ?? '')) to--;
  return typeof characters === 'string' ? characters.slice(from, to) : characters.slice(from, to).join('');
}

/** @param most parts that are cut off, -1 for all */
export function split(text: string, separator: Value | undefined, most: Value | undefined, last = false): string[] {
  const times = most === undefined ? -1 : index(most);
  const limit = times < 0 ? Infinity : times;
  if (separator === undefined || separator === null) return splitAtSpace(text, limit, last);
  const by = textArgument(separator, 'separator');
  if (by === '') throw valueError('empty separator');
  const parts = text.split(by);
  make(parts.length);
  spend(parts.length / 4);
  if (parts.length - 1 <= limit) return parts;
  if (last) return [parts.slice(0, parts.length - limit).join(by), ...parts.slice(parts.length - limit)];
  return [...parts.slice(0, limit), parts.slice(limit).join(by)];
}

function splitAtSpace(text: string, limit: number, last: boolean): string[] {
  const parts: string[] = [];
  if (last) {
    let rest = rstrip(text);
    while (rest !== '' && parts.length < limit) {
      let at = rest.length;
      while (at > 0 && !isSpace(rest.charAt(at - 1))) at--;
      parts.unshift(rest.slice(at));
      make(1);
      spend(parts.length / 16);
      rest = rstrip(rest.slice(0, at));
    }
    return rest === '' ? parts : [rest, ...parts];
  }
  let at = 0;
  for (;;) {
    while (at < text.length && isSpace(text.charAt(at))) at++;
    if (at >= text.length) return parts;
    make(1);
    if (parts.length >= limit) return [...parts, text.slice(at)];
    const from = at;
    while (at < text.length && !isSpace(text.charAt(at))) at++;
    parts.push(text.slice(from, at));
  }
}

/** Lines as Python parts them. */
export function splitLines(text: string, keepEnds = false): string[] {
  const lines: string[] = [];
  const ends = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;
  let from = 0;
  for (let match = ends.exec(text); match !== null; match = ends.exec(text)) {
    make(1);
    lines.push(text.slice(from, keepEnds ? ends.lastIndex : match.index));
    from = ends.lastIndex;
  }
  if (from < text.length) lines.push(text.slice(from));
  return lines;
}

export function replace(text: string, old: string, by: string, count: number): string {
  if (count === 0 || (old === '' && by === '')) return text;
  const limit = count < 0 ? Infinity : count;
  if (old === '') {
    const characters = charactersOf(text);
    make(text.length + Math.min(limit, characters.length + 1) * by.length);
    let result = '';
    characters.forEach((character, i) => (result += (i < limit ? by : '') + character));
    return result + (characters.length < limit ? by : '');
  }
  let times = 0;
  for (let at = text.indexOf(old); at >= 0 && times < limit; at = text.indexOf(old, at + old.length)) times++;
  if (times === 0) return text;
  spend(times / 4);
  make(text.length + times * (by.length - old.length));
  if (limit === Infinity) return text.replaceAll(old, () => by);
  let result = '';
  let from = 0;
  for (let i = 0; i < times; i++) {
    const at = text.indexOf(old, from);
    result += text.slice(from, at) + by;
    from = at + old.length;
  }
  return result + text.slice(from);
}

function partition(text: string, separator: Value | undefined, last: boolean): Tuple {
  const by = textArgument(separator, 'separator');
  if (by === '') throw valueError('empty separator');
  const at = last ? text.lastIndexOf(by) : text.indexOf(by);
  if (at < 0) return new Tuple(last ? ['', '', text] : [text, '', '']);
  return new Tuple([text.slice(0, at), by, text.slice(at + by.length)]);
}

function justify(text: string, [width, fill]: Given, share: (missing: number, width: number) => number): string {
  const wide = index(width ?? null);
  const character = fill === undefined ? ' ' : textArgument(fill, 'The fill character');
  if (lengthOf(character) !== 1) throw typeError('The fill character must be exactly one character long');
  const missing = wide - lengthOf(text);
  if (missing <= 0) return text;
  make(text.length + missing * character.length);
  const left = share(missing, wide);
  return character.repeat(left) + text + character.repeat(missing - left);
}

export const center = (text: string, args: Given): string =>
  justify(text, args, (missing, width) => Math.floor(missing / 2) + (missing & width & 1));

/** A text whose first character begins a word and whose others do not. */
export function capitalize(text: string): string {
  const [first = ''] = text;
  return made(titleOf(first) + lowerRest(text, first.length));
}

/** A sigma at a word's end is another one, which what goes before it decides. */
function lowerRest(text: string, from: number): string {
  return text.includes('Σ')
    ? text.toLowerCase().slice(text.slice(0, from).toLowerCase().length)
    : text.slice(from).toLowerCase();
}

const CASED = /[\p{Lowercase}\p{Uppercase}\p{Lt}]/u;

function titled(text: string): string {
  if (text.includes('Σ')) throw unsupported('str.title of Σ');
  let inside = false;
  let result = '';
  for (const character of charactersOf(text)) {
    result += inside ? character.toLowerCase() : titleOf(character);
    inside = CASED.test(character);
  }
  return made(result);
}

function isTitled(text: string): boolean {
  let [inside, any] = [false, false];
  for (const character of charactersOf(text)) {
    if (/[\p{Uppercase}\p{Lt}]/u.test(character)) {
      if (inside) return false;
      inside = any = true;
    } else if (/\p{Lowercase}/u.test(character)) {
      if (!inside) return false;
      any = true;
    } else inside = false;
  }
  return any;
}

/** Tells whether a text has a letter of one case and none of the other. */
export const isLower = (text: string): boolean => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
export const isUpper = (text: string): boolean => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);

function test(pattern: RegExp): Method {
  return [[], (text) => pattern.test(text)];
}

const DIGITS =
  '\\p{Nd}\\u{b2}\\u{b3}\\u{b9}\\u{1369}-\\u{1371}\\u{19da}\\u{2070}\\u{2074}-\\u{2079}\\u{2080}-\\u{2089}\\u{2460}-\\u{2468}\\u{2474}-\\u{247c}\\u{2488}-\\u{2490}\\u{24ea}\\u{24f5}-\\u{24fd}\\u{24ff}\\u{2776}-\\u{277e}\\u{2780}-\\u{2788}\\u{278a}-\\u{2792}\\u{10a40}-\\u{10a43}\\u{10e60}-\\u{10e68}\\u{11052}-\\u{1105a}\\u{1f100}-\\u{1f10a}';
/** Ideographs that are numbers. */
const NUMERALS =
  '㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千升卅卌卐叁-叄四壱壹幺廾廿弌-弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零參拾兩零六陸什𠀁𠁤𠃢𠄡𠤪𠦃𠦌𠦜𠫪𠫽𠬙𢎐𢦘𣬛𦉭廾'; // prettier-ignore

const STR_METHODS: Readonly<Record<string, Method>> = {
  capitalize: [[], (text) => capitalize(text)],
  casefold: [
    [],
    (text) => {
      if (/[^\0-\x7f]/.test(text)) throw unsupported('str.casefold beyond ASCII');
      return text.toLowerCase();
    },
  ],
  center: [['/width', '/fillchar?'], center],
  count: [
    ['/part', '/start?', '/end?'],
    (text, [part, from, to]) => {
      const wanted = textArgument(part, 'argument');
      const [start, stop] = bounds(text, from, to);
      if (start > stop) return 0;
      const within = slicedText(text, start, stop);
      if (wanted === '') return lengthOf(within) + 1;
      let count = 0;
      for (let at = within.indexOf(wanted); at >= 0; at = within.indexOf(wanted, at + wanted.length)) count++;
      return count;
    },
  ],
  endswith: affix(true),
  expandtabs: [
    ['tabsize?'],
    (text, [tabsize]) => {
      const size = tabsize === undefined ? 8 : index(tabsize);
      let column = 0;
      let result = '';
      for (const character of charactersOf(text)) {
        if (character === '\t') {
          const blanks = size > 0 ? size - (column % size) : 0;
          make(blanks);
          result += ' '.repeat(blanks);
          column += blanks;
        } else {
          result += character;
          column = character === '\n' || character === '\r' ? 0 : column + 1;
        }
      }
      return made(result);
    },
  ],
  find: [['/part', '/start?', '/end?'], (text, args) => find(text, args, false)],
  index: [['/part', '/start?', '/end?'], (text, args) => found(find(text, args, false))],
  isalnum: test(new RegExp(`^[\\p{L}\\p{N}${DIGITS}${NUMERALS}]+$`, 'u')),
  isalpha: test(/^\p{L}+$/u),
  isascii: test(/^[\0-\x7f]*$/),
  isdecimal: test(/^\p{Nd}+$/u),
  isdigit: test(new RegExp(`^[${DIGITS}]+$`, 'u')),
  isidentifier: test(/^[\p{XID_Start}_][\p{XID_Continue}]*$/u),
  islower: [[], isLower],
  isnumeric: test(new RegExp(`^[\\p{N}${NUMERALS}]+$`, 'u')),
  isprintable: [[], (text) => !/[\p{C}\p{Z}]/u.test(text.replaceAll(' ', ''))],
  isspace: [[], (text) => text !== '' && lstrip(text) === ''],
  istitle: [[], isTitled],
  isupper: [[], isUpper],
  join: [
    ['/iterable'],
    (text, [items]) => {
      let result = '';
      let first = true;
      for (const item of iterate(items ?? null)) {
        spend(1);
        const part = textOf(item);
        if (part === undefined) throw typeError(`sequence item: expected str instance, ${typeName(item)} found`);
        make(part.length + text.length);
        result += first ? part : text + part;
        first = false;
      }
      return result;
    },
  ],
  ljust: [['/width', '/fillchar?'], (text, args) => justify(text, args, () => 0)],
  lower: [[], (text) => made(text.toLowerCase())],
  lstrip: [['/chars?'], (text, [chars]) => strip(text, chars, true, false)],
  partition: [['/sep'], (text, [separator]) => partition(text, separator, false)],
  removeprefix: [
    ['/prefix'],
    (text, [prefix]) => {
      const begin = textArgument(prefix, 'removeprefix() argument');
      return text.startsWith(begin) ? text.slice(begin.length) : text;
    },
  ],
  removesuffix: [
    ['/suffix'],
    (text, [suffix]) => {
      const end = textArgument(suffix, 'removesuffix() argument');
      return end !== '' && text.endsWith(end) ? text.slice(0, -end.length) : text;
    },
  ],
  replace: [
    ['/old', '/new', '/count?'],
    (text, [old, by, count]) =>
      replace(
        text,
        textArgument(old, 'replace() argument 1'),
        textArgument(by, 'replace() argument 2'),
        count === undefined ? -1 : index(count),
      ),
  ],
  rfind: [['/part', '/start?', '/end?'], (text, args) => find(text, args, true)],
  rindex: [['/part', '/start?', '/end?'], (text, args) => found(find(text, args, true))],
  rjust: [['/width', '/fillchar?'], (text, args) => justify(text, args, (missing) => missing)],
  rpartition: [['/sep'], (text, [separator]) => partition(text, separator, true)],
  rsplit: [['sep?', 'maxsplit?'], (text, [separator, most]) => split(text, separator, most, true)],
  rstrip: [['/chars?'], (text, [chars]) => strip(text, chars, false, true)],
  split: [['sep?', 'maxsplit?'], (text, [separator, most]) => split(text, separator, most)],
  splitlines: [['keepends?'], (text, [keep]) => splitLines(text, keep !== undefined && index(keep) !== 0)],
  startswith: affix(false),
  strip: [['/chars?'], (text, [chars]) => strip(text, chars, true, true)],
  swapcase: [
    [],
    (text) => {
      if (text.includes('Σ')) throw unsupported('str.swapcase of Σ');
      return made(
        charactersOf(text)
          .map((each) =>
            /\p{Uppercase}/u.test(each) ? each.toLowerCase() : /\p{Lowercase}/u.test(each) ? each.toUpperCase() : each,
          )
          .join(''),
      );
    },
  ],
  title: [[], titled],
  translate: [
    ['/table'],
    (text, [table]) => {
      if (!(table instanceof Dict)) throw unsupported('str.translate without a dict');
      return made(
        charactersOf(text)
          .map((character) => {
            const to = table.get(character.codePointAt(0) ?? 0);
            if (to === undefined) return character;
            return to === null
              ? ''
              : typeof to === 'number'
                ? String.fromCodePoint(to)
                : textArgument(to, 'character mapping');
          })
          .join(''),
      );
    },
  ],
  upper: [[], (text) => made(text.toUpperCase())],
  zfill: [
    ['/width'],
    (text, [width]) => {
      const missing = index(width ?? null) - lengthOf(text);
      if (missing <= 0) return text;
      make(text.length + missing);
      const sign = text.startsWith('+') || text.startsWith('-') ? text.charAt(0) : '';
      return sign + '0'.repeat(missing) + text.slice(sign.length);
    },
  ],
};

export function isStrMethod(name: string): boolean {
  return Object.hasOwn(STR_METHODS, name) || name === 'format' || name === 'format_map';
}

/** A text's method by its name; undefined where texts have none of it. */
export function strMethod(
  text: string,
  name: string,
  how: { readonly markup: boolean; readonly access: Access },
): ((args: readonly Value[], named: Named) => Value) | undefined {
  const method = Object.hasOwn(STR_METHODS, name) ? STR_METHODS[name] : undefined;
  if (method !== undefined) {
    const [parameters, run] = method;
    return (args, named) => {
      spend(1);
      scan(text.length);
      return run(text, bound(name, parameters, args, named));
    };
  }
  if (name === 'format') return (args, named) => strFormat(text, args, (key) => named.get(key), how);
  if (name !== 'format_map') return undefined;
  return (args, named) => {
    const [mapping = null] = bound(name, ['/mapping'], args, named);
    if (!(mapping instanceof Dict)) throw new PythonError('TypeError', 'format_map() expects a mapping');
    return strFormat(text, [], (key) => mapping.get(key), how);
  };
}
