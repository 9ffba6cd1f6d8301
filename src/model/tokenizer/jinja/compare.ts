import { compareTexts } from './characters.js';
import { typeError, unsupported } from './errors.js';
import { iterate } from './iterate.js';
import { asInt, lengthIfAny } from './numbers.js';
import { scan, spend } from './meter.js';
import {
  Dict,
  Float,
  Iterating,
  Markup,
  Range,
  textOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from './values.js';

type Number = number | bigint;

/** A number to compare with others; undefined for what is none. */
function comparable(value: Value): Number | undefined {
  return value instanceof Float ? value.value : asInt(value);
}

function itemsOf(value: Value): readonly Value[] | undefined {
  return Array.isArray(value) ? value : value instanceof Tuple ? value.items : undefined;
}

/** Tells whether Python counts two values as the same. */
export function equal(a: Value, b: Value): boolean {
  spend(1);
  const [textA, textB] = [textOf(a), textOf(b)];
  if (textA !== undefined || textB !== undefined) {
    if (textA?.length !== textB?.length) return false;
    scan(textA?.length ?? 0);
    return textA === textB;
  }
  if (a === null || b === null) return a === b;
  const [numberA, numberB] = [comparable(a), comparable(b)];
  // Numbers of both kinds are compared by what they are; eslint would have them of one.
  if (numberA !== undefined || numberB !== undefined)
    return (
      numberA !== undefined && numberB !== undefined && !(numberA < numberB) && !(numberA > numberB) && !isNaN(a, b)
    );
  if (a instanceof Undefined) return b instanceof Undefined;
  const [itemsA, itemsB] = [itemsOf(a), itemsOf(b)];
  if (itemsA !== undefined && itemsB !== undefined)
    return (
      Array.isArray(a) === Array.isArray(b) &&
      itemsA.length === itemsB.length &&
      itemsA.every((item, i) => same(item, itemsB[i] ?? null))
    );
  if (a instanceof Dict && b instanceof Dict) return equalDicts(a, b);
  if (a instanceof Range && b instanceof Range)
    return a.length === b.length && (a.length === 0 || (a.start === b.start && (a.length === 1 || a.step === b.step)));
  if (a instanceof View && b instanceof View && a !== b && a.part !== 'values')
    throw unsupported('comparing dict views');
  return a === b;
}

function isNaN(...values: Value[]): boolean {
  return values.some((value) => value instanceof Float && Number.isNaN(value.value));
}

/** As members of a list are compared: one is the same as itself, whatever it is. */
export function same(a: Value, b: Value): boolean {
  return a === b || equal(a, b);
}

function equalDicts(a: Dict, b: Dict): boolean {
  if (a.size !== b.size) return false;
  for (const [key, value] of a.entries()) {
    const other = b.get(key);
    if (other === undefined || !same(value, other)) return false;
  }
  return true;
}

/** @returns below 0, 0 or above 0; NaN where neither is less @throws PythonError for what has no order */
export function order(a: Value, b: Value, operator: string): number {
  spend(1);
  if (a instanceof Undefined) return a.fail();
  if (b instanceof Undefined) return b.fail();
  const [numberA, numberB] = [comparable(a), comparable(b)];
  if (numberA !== undefined && numberB !== undefined) {
    if (isNaN(a, b)) return NaN;
    return numberA < numberB ? -1 : numberA > numberB ? 1 : 0;
  }
  const [textA, textB] = [textOf(a), textOf(b)];
  if (textA !== undefined && textB !== undefined) {
    scan(Math.min(textA.length, textB.length));
    return compareTexts(textA, textB);
  }
  const [itemsA, itemsB] = [itemsOf(a), itemsOf(b)];
  if (itemsA !== undefined && itemsB !== undefined && Array.isArray(a) === Array.isArray(b)) {
    for (let i = 0; i < Math.min(itemsA.length, itemsB.length); i++) {
      const [one = null, other = null] = [itemsA[i], itemsB[i]];
      if (!same(one, other)) return order(one, other, operator);
    }
    return itemsA.length - itemsB.length;
  }
  if (a instanceof View && b instanceof View) throw unsupported('comparing dict views');
  throw typeError(`'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`);
}

export function less(a: Value, b: Value): boolean {
  return order(a, b, '<') < 0;
}

/** Tells whether a container has a member. */
export function contains(container: Value, item: Value): boolean {
  spend(1);
  const text = textOf(container);
  if (text !== undefined) {
    const part = textOf(item);
    if (part === undefined) throw typeError(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    scan(text.length);
    return text.includes(part);
  }
  const items = itemsOf(container);
  if (items !== undefined) return items.some((each) => same(each, item));
  if (container instanceof Dict) return container.has(item);
  if (container instanceof View) {
    if (container.part === 'keys') return container.of.has(item);
    if (container.part === 'items') {
      if (!(item instanceof Tuple) || item.items.length !== 2) return false;
      const [key = null, value = null] = item.items;
      const found = container.of.get(key);
      return found !== undefined && same(found, value);
    }
  }
  if (container instanceof Range && !(item instanceof Undefined)) {
    const number = comparable(item);
    if (number === undefined || typeof number === 'bigint' || !Number.isInteger(number)) return false;
    const at = (number - container.start) / container.step;
    return Number.isInteger(at) && at >= 0 && at < container.length;
  }
  if (
    container instanceof View ||
    container instanceof Range ||
    container instanceof Iterating ||
    container instanceof Undefined
  ) {
    for (const each of iterate(container)) if (same(each, item)) return true;
    return false;
  }
  throw typeError(`argument of type '${typeName(container)}' is not iterable`);
}

/** Sorts as Python does: by `<` alone, equal ones in the order in which they came, or in reverse. */
export function sorted(values: readonly Value[], key: (value: Value) => Value, reverse = false): Value[] {
  const keyed = values.map((value) => ({ value, key: key(value) }));
  const sign = reverse ? -1 : 1;
  return keyed.sort((a, b) => (less(a.key, b.key) ? -sign : less(b.key, a.key) ? sign : 0)).map(({ value }) => value);
}

/** Tells whether a condition holds of a value. */
export function truth(value: Value): boolean {
  if (typeof value === 'boolean') return value;
  if (value === null) return false;
  if (typeof value === 'string') return value !== '';
  if (typeof value === 'number') return value !== 0;
  if (typeof value === 'bigint') return true;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Markup) return value.text !== '';
  return (lengthIfAny(value) ?? 1) > 0;
}
