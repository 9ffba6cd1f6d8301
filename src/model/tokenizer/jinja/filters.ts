import { bound } from './arguments.js';
import { getAttribute, getItem, hasAttribute } from './attributes.js';
import { center, capitalize, replace, strip } from './strMethods.js';
import { equal, less, sorted, truth } from './compare.js';
import { PythonError, typeError, unsupported } from './errors.js';
import { iterate, iterating, listOf } from './iterate.js';
import { escape } from './markup.js';
import { make, made, scan, spend } from './meter.js';
import { filesize, float, int, round } from './numberFilters.js';
import { indent, title, truncate, urlencode, xmlattr } from './textFilters.js';
import { batched, sliced } from './listFilters.js';
import { asInt, binary, index, lengthOfValue } from './numbers.js';
import { parseIntText } from './parseNumbers.js';
import { repr, str } from './text.js';
import { hasTest, runTest } from './tests.js';
import { tojson } from './tojson.js';
import {
  Dict,
  Float,
  Iterating,
  Markup,
  type Named,
  Range,
  textOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
  valueOr,
  View,
} from './values.js';

type Given = readonly (Value | undefined)[];
type Filter = readonly [parameters: readonly string[], run: (value: Value, args: Given) => Value];

/** A text as filters take it: escaped ones stay so. */
function softText(value: Value): string | Markup {
  return value instanceof Markup ? value : str(value);
}

/** Gives the text that a method makes of a text, escaped if the latter was. */
function onText(value: Value, run: (text: string) => string): Value {
  const soft = softText(value);
  const text = typeof soft === 'string' ? soft : soft.text;
  scan(text.length);
  const result = run(text);
  return typeof soft === 'string' ? result : new Markup(result);
}

function lowered(value: Value): Value {
  const text = textOf(value);
  return text === undefined ? value : made(text.toLowerCase());
}

/** The parts of an attribute's path; a number is a place in a list. */
function pathOf(attribute: Value): Value[] {
  if (attribute === null) return [];
  const text = textOf(attribute);
  if (text === undefined) return [attribute];
  return text.split('.').map((part) => (/^\p{Nd}+$/u.test(part) ? (parseIntText(part, 10) as number) : part));
}

function getterOf(
  attribute: Value | undefined,
  options: { caseSensitive?: boolean; fallback?: Value | undefined } = {},
): (value: Value) => Value {
  const path = pathOf(attribute ?? null);
  const { caseSensitive = true, fallback = null } = options;
  return (value) => {
    let item = value;
    for (const part of path) {
      item = getItem(item, part);
      if (fallback !== null && item instanceof Undefined) item = fallback;
    }
    return caseSensitive ? item : lowered(item);
  };
}

const flag = (value: Value | undefined): boolean => value !== undefined && truth(value);
/** One that Python's own functions take, which want a number. */
const strictFlag = (value: Value | undefined): boolean => value !== undefined && index(value) !== 0;

function extreme(value: Value, [caseSensitive, attribute]: Given, better: (a: Value, b: Value) => boolean): Value {
  const getter = getterOf(attribute, { caseSensitive: flag(caseSensitive) });
  let best: { item: Value; key: Value } | undefined;
  for (const item of iterate(value)) {
    spend(1);
    const key = getter(item);
    if (best === undefined || better(key, best.key)) best = { item, key };
  }
  return valueOr(best?.item, () => new Undefined('No aggregated item, sequence was empty.'));
}

function join(value: Value, [separator = '', attribute]: Given): Value {
  const by = str(separator);
  const getter = attribute === undefined || attribute === null ? undefined : getterOf(attribute);
  let result = '';
  let first = true;
  for (const item of iterate(value)) {
    spend(1);
    const text = str(getter ? getter(item) : item);
    make(text.length + by.length);
    result += first ? text : by + text;
    first = false;
  }
  return result;
}

function* unique(value: Value, [caseSensitive, attribute]: Given): Generator<Value, undefined> {
  const getter = getterOf(attribute, { caseSensitive: flag(caseSensitive) });
  const seen = new Dict();
  for (const item of iterate(value)) {
    const key = getter(item);
    if (seen.has(key)) continue;
    make(4);
    seen.set(key, null);
    yield item;
  }
  return undefined;
}

function groupby(value: Value, [attribute, fallback, caseSensitive]: Given): Value {
  const getter = getterOf(attribute, { caseSensitive: flag(caseSensitive), fallback });
  const groups: { key: Value; items: Value[] }[] = [];
  for (const item of sorted(listOf(value), getter)) {
    const key = getter(item);
    const last = groups.at(-1);
    if (last !== undefined && equal(last.key, key)) last.items.push(item);
    else groups.push({ key, items: [item] });
  }
  const real = flag(caseSensitive) ? undefined : getterOf(attribute, { fallback });
  return groups.map(({ key, items }) => new Group([real === undefined ? key : real(items[0] ?? null), items]));
}

/** A group of `groupby`, whose members have names. */
class Group extends Tuple {}

function dictsort(value: Value, [caseSensitive, by = 'key', reverse]: Given): Value {
  if (value instanceof Undefined) return value.fail();
  if (by !== 'key' && by !== 'value')
    throw new PythonError('TemplateError', 'You can only sort by either "key" or "value"');
  if (!(value instanceof Dict)) throw typeError(`'${typeName(value)}' object has no attribute 'items'`);
  make(4 * value.size);
  return sorted(
    [...value.entries()].map((entry) => new Tuple(entry)),
    (item) => {
      const key = (item as Tuple).items[by === 'key' ? 0 : 1] ?? null;
      return flag(caseSensitive) ? key : lowered(key);
    },
    strictFlag(reverse),
  );
}

function sort(value: Value, [reverse, caseSensitive, attribute]: Given): Value {
  const text = textOf(attribute ?? null);
  const getters = (text === undefined ? [attribute] : text.split(',')).map((each) =>
    getterOf(each, { caseSensitive: flag(caseSensitive) }),
  );
  const list = listOf(value);
  return sorted(list, (item) => getters.map((getter) => getter(item)), strictFlag(reverse));
}

function sum(value: Value, [attribute, start = 0]: Given): Value {
  const getter = attribute === undefined || attribute === null ? undefined : getterOf(attribute);
  if (textOf(start) !== undefined) throw typeError("sum() can't sum strings [use ''.join(seq) instead]");
  let total = start;
  for (const item of iterate(value)) {
    spend(1);
    total = binary('+', total, getter ? getter(item) : item);
  }
  return total;
}

function reverse(value: Value): Value {
  const text = textOf(value);
  if (text !== undefined) {
    make(text.length);
    return onText(value, () => Array.from(text).reverse().join(''));
  }
  const list = Array.isArray(value) ? value : listOf(value);
  const name = Array.isArray(value) ? 'list_reverseiterator' : 'reversed';
  const items = (function* backwards(): Generator<Value, undefined> {
    for (let i = list.length - 1; i >= 0; i--) yield list[i] ?? null;
    return undefined;
  })();
  // Of what has no order of its own Python makes a list.
  if (value instanceof Iterating) return [...items];
  return iterating(items, name);
}

function first(value: Value): Value {
  for (const item of iterate(value)) return item;
  return new Undefined('No first item, sequence was empty.');
}

function last(value: Value): Value {
  const text = textOf(value);
  if (text === '') return new Undefined('No last item, sequence was empty.');
  if (text !== undefined) {
    const character = String.fromCodePoint(
      text.codePointAt(text.length - (/[\ud800-\udbff][\udc00-\udfff]$/.test(text) ? 2 : 1)) ?? 0,
    );
    return character;
  }
  if (value instanceof Iterating) throw typeError(`'${value.typeName}' object is not reversible`);
  if (value instanceof Range)
    return value.length === 0 ? new Undefined('No last item, sequence was empty.') : value.at(value.length - 1);
  const items = Array.isArray(value) ? value : listOf(value);
  return valueOr(items.at(-1), () => new Undefined('No last item, sequence was empty.'));
}

function length(value: Value): Value {
  const text = textOf(value);
  if (text !== undefined) scan(text.length);
  return lengthOfValue(value);
}

function replaced(value: Value, [old = '', by = '', count = null]: Given): Value {
  const text = str(value);
  scan(text.length);
  return replace(text, str(old), str(by), count === null ? -1 : index(count));
}

const refused =
  (name: string): Filter[1] =>
  () => {
    throw unsupported(`the filter ${name}`);
  };

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: [
    [],
    (value) => {
      if (value instanceof Float) return new Float(Math.abs(value.value));
      const whole = asInt(value);
      if (whole === undefined) throw typeError(`bad operand type for abs(): '${typeName(value)}'`);
      return whole < 0 ? binary('-', 0, whole) : whole;
    },
  ],
  attr: [
    ['name'],
    (value, [name = null]) => {
      const text = textOf(name);
      if (text === undefined) throw typeError('attribute name must be string');
      return hasAttribute(value, text)
        ? getAttribute(value, text)
        : new Undefined(`${typeName(value)} has no attribute ${text}`);
    },
  ],
  batch: [['linecount', 'fill_with?'], (value, args) => iterating(batched(value, args))],
  capitalize: [[], (value) => onText(value, capitalize)],
  center: [['width?'], (value, [width = 80]) => onText(value, (text) => center(text, [width]))],
  count: [[], length],
  d: [['default_value?', 'boolean?'], otherwise],
  default: [['default_value?', 'boolean?'], otherwise],
  dictsort: [['case_sensitive?', 'by?', 'reverse?'], dictsort],
  e: [[], escape],
  escape: [[], escape],
  filesizeformat: [['binary?'], filesize],
  first: [[], first],
  float: [['default?'], float],
  forceescape: [[], (value) => escape(str(value))],
  groupby: [['attribute', 'default?', 'case_sensitive?'], groupby],
  indent: [['width?', 'first?', 'blank?'], indent],
  int: [['default?', 'base?'], int],
  items: [
    [],
    (value) => {
      // It complains of what is no dict when it is gone through.
      const items = function* items(): Generator<Value, undefined> {
        if (value instanceof Undefined) return undefined;
        if (!(value instanceof Dict)) throw typeError('Can only get item pairs from a mapping.');
        yield* new View(value, 'items').values();
        return undefined;
      };
      return iterating(items());
    },
  ],
  join: [['d?', 'attribute?'], join],
  last: [[], last],
  length: [[], length],
  list: [[], listOf],
  lower: [[], (value) => onText(value, (text) => made(text.toLowerCase()))],
  max: [['case_sensitive?', 'attribute?'], (value, args) => extreme(value, args, (a, b) => less(b, a))],
  min: [['case_sensitive?', 'attribute?'], (value, args) => extreme(value, args, less)],
  pprint: [
    [],
    (value) => {
      const text = repr(value);
      if (text.length > 78 || text.includes('{')) throw unsupported('the filter pprint of what is long');
      return text;
    },
  ],
  random: [[], refused('random')],
  replace: [['old', 'new', 'count?'], replaced],
  reverse: [[], reverse],
  round: [['precision?', 'method?'], round],
  safe: [[], (value) => (value instanceof Markup ? value : new Markup(str(value)))],
  slice: [['slices', 'fill_with?'], (value, args) => iterating(sliced(value, args))],
  sort: [['reverse?', 'case_sensitive?', 'attribute?'], sort],
  string: [[], softText],
  striptags: [[], refused('striptags')],
  sum: [['attribute?', 'start?'], sum],
  title: [[], (value) => onText(value, title)],
  trim: [['chars?'], (value, [chars]) => onText(value, (text) => strip(text, chars, true, true))],
  truncate: [['length?', 'killwords?', 'end?', 'leeway?'], truncate],
  unique: [['case_sensitive?', 'attribute?'], (value, args) => iterating(unique(value, args))],
  upper: [[], (value) => onText(value, (text) => made(text.toUpperCase()))],
  urlencode: [[], urlencode],
  urlize: [['trim_url_limit?', 'nofollow?', 'target?', 'rel?', 'extra_schemes?'], refused('urlize')],
  wordcount: [
    [],
    (value) => {
      const text = str(value);
      scan(text.length);
      return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
    },
  ],
  wordwrap: [['width?', 'break_long_words?', 'wrapstring?', 'break_on_hyphens?'], refused('wordwrap')],
  xmlattr: [['autospace?'], xmlattr],
};

function otherwise(value: Value, [instead = '', boolean]: Given): Value {
  return value instanceof Undefined || (flag(boolean) && !truth(value)) ? instead : value;
}

const SELECTING: ReadonlySet<string> = new Set(['select', 'reject', 'selectattr', 'rejectattr']);

export function hasFilter(name: string): boolean {
  return (
    Object.hasOwn(FILTERS, name) || SELECTING.has(name) || name === 'map' || name === 'tojson' || name === 'format'
  );
}

export function runFilter(name: string, value: Value, args: readonly Value[], named: Named): Value {
  spend(1);
  const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
  if (filter !== undefined) {
    const [parameters, run] = filter;
    if (args.length === 0 && named.size === 0 && parameters.every((each) => each.endsWith('?'))) return run(value, []);
    return run(value, bound(name, parameters, args, named));
  }
  if (name === 'tojson') return tojson(value, args, named);
  if (name === 'map') return iterating(mapped(value, args, named));
  if (SELECTING.has(name)) return iterating(selected(name, value, args, named));
  if (name !== 'format') throw new PythonError('TemplateError', `No filter named '${name}' found.`);
  if (args.length > 0 && named.size > 0)
    throw new PythonError('TemplateError', "can't handle positional and keyword arguments at the same time");
  const values = named.size > 0 ? Dict.of(named) : new Tuple(args);
  return binary('%', softText(value), values);
}

function* mapped(value: Value, args: readonly Value[], named: Named): Generator<Value, undefined> {
  if (!truth(value)) return undefined;
  let change: (item: Value) => Value;
  const attribute = args.length === 0 ? named.get('attribute') : undefined;
  if (attribute !== undefined) {
    for (const name of named.keys())
      if (name !== 'attribute' && name !== 'default')
        throw new PythonError('TemplateError', `Unexpected keyword argument '${name}'`);
    change = getterOf(attribute, { fallback: named.get('default') });
  } else {
    const [name, ...rest] = args;
    if (name === undefined) throw new PythonError('TemplateError', 'map requires a filter argument');
    const filter = textOf(name);
    change = (item) => {
      if (filter === undefined) throw new PythonError('TemplateError', `No filter named ${repr(name)}.`);
      return runFilter(filter, item, rest, named);
    };
  }
  for (const item of iterate(value)) {
    spend(1);
    yield change(item);
  }
  return undefined;
}

function* selected(name: string, value: Value, args: readonly Value[], named: Named): Generator<Value, undefined> {
  if (!truth(value)) return undefined;
  const ofAttribute = name.endsWith('attr');
  const wanted = name.startsWith('select');
  let rest = args;
  let getter = (item: Value): Value => item;
  if (ofAttribute) {
    const [attribute] = args;
    if (attribute === undefined) throw new PythonError('TemplateError', 'Missing parameter for attribute name');
    getter = getterOf(attribute);
    rest = args.slice(1);
  }
  const [test, ...more] = rest;
  const testName = textOf(test ?? null);
  for (const item of iterate(value)) {
    spend(1);
    const of = getter(item);
    let holds: boolean;
    if (test === undefined) holds = truth(of);
    else {
      if (testName === undefined || !hasTest(testName))
        throw new PythonError('TemplateError', `No test named ${repr(test)}.`);
      holds = runTest(testName, of, more, named, hasFilter);
    }
    if (holds === wanted) yield item;
  }
  return undefined;
}
