import { lengthOf } from './characters.js';
import { truth } from './compare.js';
import { PythonError, typeError, unsupported, valueError } from './errors.js';
import { iterate, listOf } from './iterate.js';
import { escape } from './markup.js';
import { make, made, spend } from './meter.js';
import { index, lengthOfValue } from './numbers.js';
import { slicedText, split, splitLines } from './strMethods.js';
import { repr, str } from './text.js';
import { Dict, Iterating, Markup, Range, textOf, Tuple, typeName, Undefined, type Value, View } from './values.js';

type Given = readonly (Value | undefined)[];

const flag = (value: Value | undefined): boolean => value !== undefined && truth(value);

export function indent(value: Value, [width = 4, first, blank]: Given): Value {
  if (value instanceof Undefined) return value.fail();
  const text = textOf(value);
  if (text === undefined) throw typeError(`can only indent str, not ${typeName(value)}`);
  const wide = textOf(width);
  const escaped = value instanceof Markup;
  if (wide === undefined) make(Math.max(0, index(width)));
  let by = wide ?? ' '.repeat(Math.max(0, index(width)));
  if (escaped && !(width instanceof Markup)) by = new Markup(by).text;
  const lines = splitLines(`${text}\n`);
  make(text.length + lines.length * (by.length + 1));
  const rest = lines.slice(1);
  const [begins = ''] = lines;
  const result =
    (flag(first) ? by : '') +
    (flag(blank)
      ? lines.join(`\n${by}`)
      : [begins, ...rest.map((line) => (line === '' ? line : by + line))].join('\n'));
  return escaped ? new Markup(result) : result;
}

export function truncate(value: Value, [length = 255, killwords, end = '...', leeway = 5]: Given): Value {
  const most = index(length);
  const ends = textOf(end);
  if (ends === undefined) throw typeError('end must be str');
  const slack = leeway === null ? 5 : index(leeway);
  if (most < lengthOf(ends))
    throw new PythonError('AssertionError', `expected length >= ${lengthOf(ends)}, got ${most}`);
  if (slack < 0) throw new PythonError('AssertionError', `expected leeway >= 0, got ${slack}`);
  if (lengthOfValue(value) <= most + slack) return value;
  const text = textOf(value);
  if (text === undefined || value instanceof Markup) throw unsupported(`truncate of ${typeName(value)}`);
  const cut = slicedText(text, 0, most - lengthOf(ends));
  return made((flag(killwords) ? cut : (split(cut, ' ', 1, true)[0] ?? '')) + ends);
}

export function title(text: string): string {
  return made(
    text
      .split(/([-\s\x1c-\x1f\x85({[<]+)/u)
      .map((part) => {
        const [first = ''] = part;
        return first.toUpperCase() + part.slice(first.length).toLowerCase();
      })
      .join(''),
  );
}

export function urlencode(value: Value): Value {
  const quote = (each: Value, slash: string): string =>
    made(
      encodeURIComponent(str(each).replace(/\p{Cs}/gu, '\ufffd'))
        .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
        .replaceAll('%2F', slash),
    );
  if (textOf(value) !== undefined) return quote(value, '/');
  let items: Iterable<Value> | undefined;
  if (value instanceof Dict) items = new View(value, 'items').values();
  else if (
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof Undefined ||
    value instanceof View ||
    value instanceof Iterating ||
    value instanceof Range
  )
    items = iterate(value);
  if (items === undefined) return quote(value, '/');
  let result = '';
  for (const item of items) {
    spend(1);
    const pair = listOf(item);
    if (pair.length !== 2) throw valueError(`found ${pair.length} values to unpack, expected 2`);
    const [name, of] = pair.map((each) => quote(each, '%2F').replaceAll('%20', '+'));
    result += `${result === '' ? '' : '&'}${name ?? ''}=${of ?? ''}`;
  }
  return made(result);
}

export function xmlattr(value: Value, [autospace = true]: Given): Value {
  if (!(value instanceof Dict)) throw typeError(`'${typeName(value)}' object has no attribute 'items'`);
  let result = '';
  for (const [key, of] of value.entries()) {
    if (of === null || of instanceof Undefined) continue;
    const name = textOf(key);
    if (name === undefined) throw typeError('expected string or bytes-like object');
    if (/[ \t\n\r\f\v/>=]/.test(name)) throw valueError(`Invalid character in attribute name: ${repr(key)}`);
    result += `${result === '' ? '' : ' '}${escape(key).text}="${escape(of).text}"`;
  }
  return made((truth(autospace) && result !== '' ? ' ' : '') + result);
}
