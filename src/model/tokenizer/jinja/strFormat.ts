import { PythonError, unsupported, valueError } from './errors.js';
import { formatValue } from './formatSpec.js';
import { escape } from './markup.js';
import { made, spend } from './meter.js';
import { quoted, repr, str } from './text.js';
import { Markup, type Value } from './values.js';

/** How fields come to members of values. */
export interface Access {
  readonly attribute: (value: Value, name: string) => Value;
  readonly item: (value: Value, argument: Value) => Value;
}

interface Given {
  readonly access: Access;
  readonly args: readonly Value[];
  readonly named: (name: string) => Value | undefined;
  /** True if values are escaped. */
  readonly markup: boolean;
  /** The number of the next field without one; undefined once fields have numbers. */
  automatic: number | undefined;
}

/** `text.format(…)`. */
export function strFormat(
  format: string,
  args: readonly Value[],
  named: (name: string) => Value | undefined,
  { markup, access }: { readonly markup: boolean; readonly access: Access },
): string {
  return made(formatted(format, { access, args, named, markup, automatic: 0 }, 2));
}

function formatted(format: string, given: Given, depth: number): string {
  if (depth < 0) throw valueError('Max string recursion exceeded');
  let result = '';
  let at = 0;
  while (at < format.length) {
    const brace = nextBrace(format, at);
    if (brace < 0) return result + format.slice(at);
    result += format.slice(at, brace);
    const character = format.charAt(brace);
    if (format.charAt(brace + 1) === character) {
      result += character;
      at = brace + 2;
      continue;
    }
    if (character === '}') throw valueError("Single '}' encountered in format string");
    if (brace + 1 >= format.length) throw valueError("Single '{' encountered in format string");
    const end = endOfField(format, brace + 1);
    result += field(format.slice(brace + 1, end), given, depth);
    at = end + 1;
  }
  return result;
}

function nextBrace(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '{' || text[at] === '}') return at;
  return -1;
}

function endOfField(format: string, from: number): number {
  let open = 1;
  let bracket = false;
  for (let at = from; at < format.length; at++) {
    const character = format.charAt(at);
    if (character === '[') bracket = true;
    else if (character === ']') bracket = false;
    else if (!bracket && character === '{') open++;
    else if (!bracket && character === '}' && --open === 0) return at;
  }
  throw valueError("expected '}' before end of string");
}

function field(text: string, given: Given, depth: number): string {
  spend(5);
  const [, name = '', conversion, specification = ''] = /^((?:\[[^\]]*\]|[^!:{}[\]])*)(?:!([^:]*))?(?::([^]*))?$/u.exec(
    text,
  ) ?? [undefined, undefined];
  if (!text.startsWith(name) || (name === '' && text !== '' && !/^[!:]/.test(text)))
    throw valueError(`unexpected field in format string: ${quoted(text)}`);
  let value = valueOf(name, given);
  switch (conversion) {
    case undefined:
      break;
    case 's':
      value = str(value);
      break;
    case 'r':
      value = repr(value);
      break;
    case 'a':
      throw unsupported('the conversion !a');
    default:
      throw valueError(`Unknown conversion specifier ${conversion}`);
  }
  const spec = formatted(specification, given, depth - 1);
  if (!given.markup) return formatValue(value, spec);
  if (value instanceof Markup) {
    if (spec !== '') throw valueError('Format specifier given, but Markup does not define one');
    return value.text;
  }
  return escape(formatValue(value, spec)).text;
}

function valueOf(name: string, given: Given): Value {
  const [, first = '', rest = ''] = /^([^.[]*)([^]*)$/.exec(name) ?? [];
  let value: Value;
  // As in Python's own formatter, a number with a path after it leaves the count alone.
  if (name === '' || /^\d+$/.test(name)) {
    const automatic = name === '';
    if (automatic ? given.automatic === undefined : (given.automatic ?? 0) > 0)
      throw valueError('cannot switch between manual and automatic field numbering');
    const number = automatic ? (given.automatic ?? 0) : Number(name);
    given.automatic = automatic ? number + 1 : undefined;
    value = argument(given, number);
  } else if (/^\d+$/.test(first)) value = argument(given, Number(first));
  else {
    const found = given.named(first);
    if (found === undefined) throw new PythonError('LookupError', quoted(first));
    value = found;
  }
  let done = 0;
  for (const match of rest.matchAll(/\.([^.[]+)|\[([^\]]+)\]/gy)) {
    const [whole, attribute, item = ''] = match;
    done += whole.length;
    value =
      attribute === undefined
        ? given.access.item(value, /^\d+$/.test(item) ? Number(item) : item)
        : given.access.attribute(value, attribute);
  }
  if (done < rest.length) throw valueError('Empty attribute in format string');
  return value;
}

function argument({ args }: Given, number: number): Value {
  const value = args[number];
  if (value === undefined)
    throw new PythonError('LookupError', `Replacement index ${number} out of range for positional args tuple`);
  return value;
}
