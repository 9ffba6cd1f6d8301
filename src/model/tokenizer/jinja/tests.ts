import { contains, equal, order } from './compare.js';
import { PythonError, typeError } from './errors.js';
import { iterateIfAny } from './iterate.js';
import { binary, lengthIfAny } from './numbers.js';
import { isLower, isUpper } from './strMethods.js';
import { str } from './text.js';
import {
  Callable,
  Dict,
  Float,
  Macro,
  Markup,
  type Named,
  Range,
  textOf,
  Tuple,
  Undefined,
  type Value,
} from './values.js';

type Test = (value: Value, ...args: Value[]) => boolean;

const isSame = (a: Value, b: Value): boolean => a === b;

function compared(operator: string, holds: (order: number) => boolean): Test {
  return (value, other = null) => holds(order(value, other, operator));
}

const equalTo: Test = (value, other = null) => equal(value, other);
const unequalTo: Test = (value, other = null) => !equal(value, other);
const less = compared('<', (by) => by < 0);
const lessOrEqual = compared('<=', (by) => by <= 0);
const greater = compared('>', (by) => by > 0);
const greaterOrEqual = compared('>=', (by) => by >= 0);

function isInt(value: Value): boolean {
  return typeof value === 'number' || typeof value === 'bigint';
}

const ONE: Readonly<Record<string, Test>> = {
  odd: (value) => equal(binary('%', value, 2), 1),
  even: (value) => equal(binary('%', value, 2), 0),
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  false: (value) => value === false,
  true: (value) => value === true,
  integer: isInt,
  float: (value) => value instanceof Float,
  lower: (value) => isLower(str(value)),
  upper: (value) => isUpper(str(value)),
  string: (value) => textOf(value) !== undefined,
  mapping: (value) => value instanceof Dict,
  number: (value) => isInt(value) || typeof value === 'boolean' || value instanceof Float,
  sequence: (value) =>
    textOf(value) !== undefined ||
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof Dict ||
    value instanceof Range ||
    (lengthIfAny(value) !== undefined && value instanceof Undefined),
  iterable: (value) => iterateIfAny(value) !== undefined,
  callable: (value) =>
    value instanceof Callable ||
    value instanceof Macro ||
    value instanceof Undefined ||
    (value !== null && typeof value === 'object' && 'callable' in value && value.callable === true),
  escaped: (value) => value instanceof Markup,
};

const TWO: Readonly<Record<string, Test>> = {
  divisibleby: (value, by = null) => equal(binary('%', value, by), 0),
  sameas: (value, other = null) => isSame(value, other),
  in: (value, container = null) => contains(container, value),
  '==': equalTo,
  eq: equalTo,
  equalto: equalTo,
  '!=': unequalTo,
  ne: unequalTo,
  '>': greater,
  gt: greater,
  greaterthan: greater,
  '>=': greaterOrEqual,
  ge: greaterOrEqual,
  '<': less,
  lt: less,
  lessthan: less,
  '<=': lessOrEqual,
  le: lessOrEqual,
};

export function hasTest(name: string): boolean {
  return Object.hasOwn(ONE, name) || Object.hasOwn(TWO, name) || name === 'filter' || name === 'test';
}

/** @param hasFilter for the test of the same name */
export function runTest(
  name: string,
  value: Value,
  args: readonly Value[],
  named: Named,
  hasFilter: (name: string) => boolean,
): boolean {
  const one = Object.hasOwn(ONE, name) ? ONE[name] : undefined;
  const two = one === undefined && Object.hasOwn(TWO, name) ? TWO[name] : undefined;
  const of = name === 'filter' ? hasFilter : name === 'test' ? hasTest : undefined;
  if (one === undefined && two === undefined && of === undefined)
    throw new PythonError('TemplateError', `No test named '${name}' found.`);
  const all = [...args];
  const parameter = { divisibleby: 'num', sameas: 'other', in: 'seq' }[name];
  const byName = parameter === undefined ? undefined : named.get(parameter);
  if (byName !== undefined) all.push(byName);
  if (named.size > (byName === undefined ? 0 : 1) || all.length !== (two === undefined ? 0 : 1))
    throw typeError(
      `the test '${name}' takes ${two === undefined ? 'no argument' : 'one argument'}, found ${all.length + named.size}`,
    );
  if (of !== undefined) {
    const key = textOf(value);
    // Python looks for it among names: what cannot be hashed is an error.
    return key === undefined ? new Dict().has(value) : of(key);
  }
  return (one ?? two ?? isSame)(value, ...(all as [Value]));
}
