import { bound } from './arguments.js';
import { hasPairs } from './characters.js';
import { same } from './compare.js';
import { PythonError, typeError, unsupported, valueError } from './errors.js';
import { escape } from './markup.js';
import { make, makeList, scan, spend } from './meter.js';
import { asInt, index, lengthIfAny } from './numbers.js';
import type { Access } from './strFormat.js';
import { charactersOf, isStrMethod, strMethod } from './strMethods.js';
import {
  Attributed,
  Callable,
  Dict,
  Float,
  Iterating,
  Macro,
  Markup,
  Namespace,
  Range,
  textOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
  valueOr,
  View,
} from './values.js';

/** Attributes of all objects, which templates may not have. */
const OBJECT =
  /^__(?:class|delattr|dir|doc|eq|format|ge|getattribute|getstate|gt|hash|init|init_subclass|le|lt|ne|new|reduce|reduce_ex|repr|setattr|sizeof|str|subclasshook)__$/;
const CONTAINER =
  /^__(?:add|mul|rmul|contains|getitem|iter|len|setitem|delitem|iadd|imul|reversed|mod|rmod|getnewargs|or|ior|ror|class_getitem|bool)__$/;
const LIST_CHANGES: ReadonlySet<string> = new Set([
  'append',
  'clear',
  'pop',
  'reverse',
  'insert',
  'sort',
  'extend',
  'remove',
]);
const DICT_CHANGES: ReadonlySet<string> = new Set(['clear', 'pop', 'popitem', 'setdefault', 'update']);
/** Attributes that Python's numbers have, and templates do not use. */
const OF_NUMBERS: ReadonlySet<string> = new Set([
  'as_integer_ratio',
  'bit_count',
  'bit_length',
  'conjugate',
  'denominator',
  'from_bytes',
  'fromhex',
  'hex',
  'imag',
  'is_integer',
  'numerator',
  'real',
  'to_bytes',
]);
const OF_MARKUP: ReadonlySet<string> = new Set(['striptags', 'unescape', 'escape']);

function hasSecret(value: Value, name: string): boolean {
  if (OBJECT.test(name)) return true;
  if (!CONTAINER.test(name)) return false;
  return textOf(value) !== undefined || Array.isArray(value) || value instanceof Tuple || value instanceof Dict;
}

function unsafe(value: Value, name: string): Undefined {
  return new Undefined(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`, 'SecurityError');
}

function missing(value: Value, name: string): Undefined {
  return new Undefined(`'${value === null ? 'None' : `${typeName(value)} object`}' has no attribute '${name}'`);
}

/** `value.name`: the attribute, else the member of that name. */
export function getAttribute(value: Value, name: string): Value {
  spend(1);
  // Members of messages, nearly always.
  if (value instanceof Dict && !DICT_NAMES.has(name) && !name.startsWith('__'))
    return valueOr(value.get(name), () => missing(value, name));
  const found = attribute(value, name);
  if (found !== undefined) return found;
  if (value instanceof Undefined) return value.fail();
  return valueOr(itemIfAny(value, name), () => missing(value, name));
}

/** `value[argument]`: the member, else the attribute of that name. */
export function getItem(value: Value, argument: Value): Value {
  spend(1);
  if (value instanceof Undefined) return value.fail();
  const item = itemIfAny(value, argument);
  if (item !== undefined) return item;
  const name = textOf(argument);
  const found = name === undefined ? undefined : attribute(value, name);
  return valueOr(found, () => new Undefined(`${typeName(value)} object has no element ${name ?? typeName(argument)}`));
}

/** @returns undefined where Python raises a LookupError or a TypeError */
function itemIfAny(value: Value, argument: Value): Value | undefined {
  if (value instanceof Dict) {
    try {
      return value.get(argument);
    } catch (error) {
      if (error instanceof PythonError) return undefined;
      throw error;
    }
  }
  const length =
    textOf(value) !== undefined || Array.isArray(value) || value instanceof Tuple || value instanceof Range
      ? true
      : undefined;
  const int = asInt(argument);
  if (length === undefined || int === undefined || typeof int === 'bigint') return undefined;
  const text = textOf(value);
  if (text !== undefined) {
    scan(text.length);
    if (int >= 0 && !hasPairs(text)) return wrapped(value, text[int]);
    return wrapped(value, charactersAt(text, int));
  }
  const size = lengthIfAny(value) ?? 0;
  const at = int < 0 ? int + size : int;
  if (at < 0 || at >= size) return undefined;
  if (value instanceof Range) return value.at(at);
  return Array.isArray(value) ? value[at] : (value as Tuple).items[at];
}

function charactersAt(text: string, at: number): string | undefined {
  return hasPairs(text) ? charactersOf(text).at(at) : text.at(at);
}

function wrapped(like: Value, text: string | undefined): Value | undefined {
  return text !== undefined && like instanceof Markup ? new Markup(text) : text;
}

const DICT_NAMES: ReadonlySet<string> = new Set([
  ...DICT_CHANGES,
  'copy',
  'fromkeys',
  'get',
  'items',
  'keys',
  'values',
]);

/** Tells whether Python's `getattr` would find something. */
export function hasAttribute(value: Value, name: string): boolean {
  if (value instanceof Undefined && !hasSecret(value, name)) return value.fail();
  return attribute(value, name) !== undefined;
}

/** The attribute of a value; undefined where it has none of that name. */
function attribute(value: Value, name: string): Value | undefined {
  if (value instanceof Namespace)
    return name.startsWith('__') && hasSecret(value, name) ? unsafe(value, name) : value.members.get(name);
  if (name.startsWith('_')) return hasSecret(value, name) ? unsafe(value, name) : undefined;
  if (typeof value === 'string' || value instanceof Markup) return ofText(value, name);
  if (value instanceof Dict) return ofDict(value, name);
  if (Array.isArray(value)) {
    if (LIST_CHANGES.has(name)) return unsafe(value, name);
    if (name === 'copy') return method(name, [], () => [...value]);
    return ofSequence(value, value, name);
  }
  if (value instanceof Tuple) return ofSequence(value, value.items, name);
  if (value instanceof Range) {
    if (name === 'start' || name === 'stop' || name === 'step') return value[name];
    if (name === 'count' || name === 'index') throw unsupported(`range.${name}`);
    return undefined;
  }
  if (value instanceof Attributed) return value.attribute(name);
  if (value instanceof Macro) return value.attributes[name];
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' || value instanceof Float) {
    if (OF_NUMBERS.has(name)) throw unsupported(`${typeName(value)}.${name}`);
    return undefined;
  }
  if (value instanceof View && (name === 'mapping' || name === 'isdisjoint')) throw unsupported(`dict views' ${name}`);
  if (value instanceof Iterating && /^(?:close|send|throw|gi_\w+)$/.test(name))
    throw unsupported(`a generator's ${name}`);
  if (value instanceof Callable && value.typeName === 'type') {
    if (name === 'mro') return unsafe(value, name);
    throw unsupported(`${value.name}.${name}`);
  }
  return undefined;
}

function method(
  name: string,
  parameters: readonly string[],
  run: (args: readonly (Value | undefined)[]) => Value,
): Callable {
  return new Callable(
    name,
    (args, named) => {
      spend(1);
      return run(bound(name, parameters, args, named));
    },
    'builtin_function_or_method',
  );
}

const ACCESS: Access = { attribute: getAttribute, item: getItem };

function ofText(value: string | Markup, name: string): Value | undefined {
  const markup = value instanceof Markup;
  if (name === 'encode' || name === 'maketrans' || (markup && OF_MARKUP.has(name)))
    throw unsupported(`${typeName(value)}.${name}`);
  if (!markup) {
    const call = strMethod(value, name, { markup, access: ACCESS });
    return call && new Callable(name, call, 'builtin_function_or_method');
  }
  if (!isStrMethod(name)) return undefined;
  const call = strMethod(value.text, name, { markup, access: ACCESS });
  return (
    call &&
    new Callable(
      name,
      (args, named) =>
        marked(
          call(
            args.map((each) => escapedArgument(name, each)),
            named,
          ),
        ),
      'method',
    )
  );
}

/** Methods of Markup escape texts that they put in. */
function escapedArgument(name: string, value: Value): Value {
  if (name === 'join' && !(typeof value === 'string')) throw unsupported('Markup.join');
  return name === 'replace' && typeof value === 'string' ? escape(value).text : value;
}

function marked(value: Value): Value {
  if (typeof value === 'string') return new Markup(value);
  if (Array.isArray(value)) return value.map(marked);
  return value instanceof Tuple ? new Tuple(value.items.map(marked)) : value;
}

function ofDict(dict: Dict, name: string): Value | undefined {
  if (DICT_CHANGES.has(name)) return unsafe(dict, name);
  switch (name) {
    case 'get':
      return method(name, ['/key', '/default?'], ([key = null, otherwise = null]) =>
        valueOr(dict.get(key), () => otherwise),
      );
    case 'keys':
    case 'values':
    case 'items':
      return method(name, [], () => new View(dict, name));
    case 'copy':
      return method(name, [], () => {
        make(4 * dict.size);
        return Dict.of(dict.entries());
      });
    case 'fromkeys':
      throw unsupported('dict.fromkeys');
    default:
      return undefined;
  }
}

function ofSequence(value: Value, items: readonly Value[], name: string): Value | undefined {
  if (name === 'count')
    return method(name, ['/value'], ([wanted = null]) => items.filter((item) => same(item, wanted)).length);
  if (name !== 'index') return undefined;
  return method(name, ['/value', '/start?', '/stop?'], ([wanted = null, start = 0, stop = items.length]) => {
    const from = (at: number): number => (at < 0 ? Math.max(0, at + items.length) : at);
    for (let i = from(index(start)); i < Math.min(items.length, from(index(stop))); i++)
      if (same(items[i] ?? null, wanted)) return i;
    throw valueError(`the value is not in the ${typeName(value)}`);
  });
}

/** `value[start:stop:step]`. */
export function slice(value: Value, parts: readonly (Value | undefined)[]): Value {
  if (value instanceof Undefined) return value.fail();
  const text = textOf(value);
  const items = Array.isArray(value) ? value : value instanceof Tuple ? value.items : undefined;
  if (text === undefined && items === undefined && !(value instanceof Range)) {
    if (value instanceof Dict) throw typeError("unhashable type: 'slice'");
    throw typeError(`'${typeName(value)}' object is not subscriptable`);
  }
  const [start, stop, step] = parts.map((part) => {
    if (part === undefined || part === null) return undefined;
    if (asInt(part) === undefined)
      throw typeError('slice indices must be integers or None or have an __index__ method');
    return index(part);
  });
  if (step === 0) throw valueError('slice step cannot be zero');
  if (text !== undefined) {
    scan(text.length);
    const units = hasPairs(text) ? charactersOf(text) : text;
    const [from, to, by] = indices(units.length, start, stop, step ?? 1);
    if (by === 1 && typeof units === 'string') return wrapped(value, units.slice(from, Math.max(from, to))) ?? '';
    return wrapped(value, picked((at) => units[at] ?? '', from, to, by).join('')) ?? '';
  }
  const length = value instanceof Range ? value.length : (items?.length ?? 0);
  const [from, to, by] = indices(length, start, stop, step ?? 1);
  if (value instanceof Range)
    return new Range(value.start + from * value.step, value.start + to * value.step, value.step * by);
  const result = picked((at) => items?.[at] ?? null, from, to, by);
  return Array.isArray(value) ? result : new Tuple(result);
}

/** As Python's `slice.indices`. */
function indices(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): [number, number, number] {
  const [lowest, highest] = step < 0 ? [-1, length - 1] : [0, length];
  const at = (value: number | undefined, otherwise: number): number => {
    if (value === undefined) return otherwise;
    return value < 0 ? Math.max(lowest, value + length) : Math.min(highest, value);
  };
  return step < 0 ? [at(start, highest), at(stop, lowest), step] : [at(start, lowest), at(stop, highest), step];
}

function picked<T>(at: (index: number) => T, from: number, to: number, step: number): T[] {
  const count = Math.max(0, Math.ceil((to - from) / step));
  makeList(count);
  return Array.from({ length: count }, (_, i) => at(from + i * step));
}

/** Calls a value. */
export function call(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  spend(1);
  if (value instanceof Callable || value instanceof Macro) return value.call(args, named);
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Attributed) {
    const own = value.attribute('__call__');
    if (own instanceof Callable) return own.call(args, named);
  }
  throw typeError(`'${typeName(value)}' object is not callable`);
}
