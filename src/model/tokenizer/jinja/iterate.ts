import { typeError, unsupported } from './errors.js';
import { make, makeList, spend } from './meter.js';
import { Attributed, Dict, Iterating, Range, textOf, Tuple, typeName, Undefined, type Value, View } from './values.js';

/** Gives the values that a loop over a value goes through. @throws PythonError for what cannot be gone through */
export function iterate(value: Value): Iterable<Value> {
  const found = iterateIfAny(value);
  if (found === undefined) throw typeError(`'${typeName(value)}' object is not iterable`);
  return found;
}

/** @returns undefined for what cannot be gone through */
export function iterateIfAny(value: Value): Iterable<Value> | undefined {
  if (Array.isArray(value)) return value;
  const text = textOf(value);
  if (text !== undefined) return text;
  if (value instanceof Tuple) return value.items;
  if (value instanceof Dict) return value.keys();
  if (value instanceof View) return value.values();
  if (value instanceof Range) return numbersOf(value);
  if (value instanceof Undefined) return [];
  if (value instanceof Iterating) return { [Symbol.iterator]: () => value.iterator };
  if (value instanceof Attributed && value.typeName === 'LoopContext') throw unsupported('iterating over loop');
  return undefined;
}

function* numbersOf(range: Range): Generator<Value, undefined> {
  for (let i = 0; i < range.length; i++) yield range.at(i);
  return undefined;
}

/** All that a loop over a value goes through, in a list of its own. */
export function listOf(value: Value): Value[] {
  if (Array.isArray(value)) {
    makeList(value.length);
    return [...value];
  }
  const list: Value[] = [];
  for (const item of iterate(value)) {
    spend(1);
    make(1);
    list.push(item);
  }
  return list;
}

/** An iterator, which can be gone through once, over a list or whatever a loop could go through. */
export function iterating(items: Iterable<Value>, typeName = 'generator'): Iterating {
  return new Iterating(items[Symbol.iterator](), typeName);
}
