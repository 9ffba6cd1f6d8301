import { lengthOf } from './characters.js';
import { PythonError, typeError, unsupported } from './errors.js';
import { percentFormat } from './percentFormat.js';
import { escapeText, markupArgument } from './markup.js';
import { make, made, makeList, spend } from './meter.js';
import type { BinaryOperator } from './nodes.js';
import { checkedInt, Dict, Float, Markup, Tuple, typeName, Undefined, type Value, View } from './values.js';

type Int = number | bigint;

/** A whole number, as which truth values count; undefined for what is none. */
export function asInt(value: Value): Int | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  return typeof value === 'boolean' ? Number(value) : undefined;
}

/** A small whole number, such as an index. @throws PythonError for what is none */
export function index(value: Value): number {
  const int = asInt(value);
  if (int === undefined) {
    if (value instanceof Undefined) throw typeError("'Undefined' object cannot be interpreted as an integer");
    throw typeError(`'${typeName(value)}' object cannot be interpreted as an integer`);
  }
  return typeof int === 'bigint' ? (int < 0n ? -Number.MAX_SAFE_INTEGER : Number.MAX_SAFE_INTEGER) : int;
}

/** A number of JavaScript's. @throws PythonError where a whole number is beyond all */
function asFloat(value: Int | Float): number {
  if (value instanceof Float) return value.value;
  const number = Number(value);
  if (!Number.isFinite(number)) throw new PythonError('OverflowError', 'int too large to convert to float');
  return number;
}

function numberOf(value: Value): Int | Float | undefined {
  return value instanceof Float ? value : asInt(value);
}

const NAMES: Readonly<Record<BinaryOperator, string>> = {
  '+': '+',
  '-': '-',
  '*': '*',
  '/': '/',
  '//': '//',
  '%': '%',
  '**': '** or pow()',
};

export function binary(operator: BinaryOperator, left: Value, right: Value): Value {
  if (operator === '+' && typeof left === 'string' && typeof right === 'string') {
    make(left.length + right.length);
    return left + right;
  }
  if (operator === '%' && typeof left === 'string') return percentFormat(left, right);
  if (left instanceof Undefined) return left.fail();
  if (operator === '%' && left instanceof Markup) return new Markup(percentFormat(left.text, right, markupArgument));
  if (right instanceof Undefined) return right.fail();
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined)
    return a instanceof Float || b instanceof Float ? floats(operator, asFloat(a), asFloat(b)) : ints(operator, a, b);
  const joined = operator === '+' ? concatenated(left, right) : operator === '*' ? repeated(left, right) : undefined;
  if (joined !== undefined) return joined;
  if (operator === '-' && (left instanceof View || right instanceof View)) throw unsupported('sets');
  throw typeError(`unsupported operand type(s) for ${NAMES[operator]}: '${typeName(left)}' and '${typeName(right)}'`);
}

function concatenated(left: Value, right: Value): Value | undefined {
  if (left instanceof Markup || right instanceof Markup) {
    const [a, b] = [escaped(left), escaped(right)];
    return a === undefined || b === undefined ? undefined : new Markup(made(a + b));
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    makeList(left.length + right.length);
    return [...left, ...right];
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    makeList(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  return undefined;
}

function escaped(value: Value): string | undefined {
  return value instanceof Markup ? value.text : typeof value === 'string' ? escapeText(value) : undefined;
}

function repeated(left: Value, right: Value): Value | undefined {
  const [sequence, count] = asInt(right) !== undefined ? [left, right] : [right, left];
  const times = asInt(count);
  if (times === undefined) return undefined;
  const n = Math.max(0, index(times));
  if (typeof sequence === 'string') return repeatedText(sequence, n);
  if (sequence instanceof Markup) return new Markup(repeatedText(sequence.text, n));
  const items = Array.isArray(sequence) ? sequence : sequence instanceof Tuple ? sequence.items : undefined;
  if (items === undefined) return undefined;
  makeList(items.length * n);
  if (items.length === 0) return Array.isArray(sequence) ? [] : sequence;
  const result: Value[] = [];
  for (let i = 0; i < n; i++) for (const item of items) result.push(item);
  return Array.isArray(sequence) ? result : new Tuple(result);
}

function repeatedText(text: string, times: number): string {
  if (text === '') return '';
  make(text.length * times);
  return text.repeat(times);
}

function ints(operator: BinaryOperator, a: Int, b: Int): Value {
  if (typeof a === 'number' && typeof b === 'number') {
    const quick = safeInts(operator, a, b);
    if (quick !== undefined && Number.isSafeInteger(quick)) return quick + 0;
  }
  switch (operator) {
    case '+':
      return checkedInt(BigInt(a) + BigInt(b));
    case '-':
      return checkedInt(BigInt(a) - BigInt(b));
    case '*':
      spend(20);
      return checkedInt(BigInt(a) * BigInt(b));
    case '**':
      return power(a, b);
    case '/':
      if (Number(b) === 0) throw new PythonError('ZeroDivisionError', 'division by zero');
      if (typeof a === 'bigint' || typeof b === 'bigint') throw unsupported('division of numbers beyond 2^53');
      return new Float(a / b + 0);
    default: {
      if (Number(b) === 0) throw new PythonError('ZeroDivisionError', 'integer division or modulo by zero');
      spend(20);
      const [x, y] = [BigInt(a), BigInt(b)];
      const rest = x % y;
      const away = rest !== 0n && rest < 0n !== y < 0n;
      return checkedInt(operator === '%' ? rest + (away ? y : 0n) : x / y - (away ? 1n : 0n));
    }
  }
}

/** The result where numbers of JavaScript's come to it. */
function safeInts(operator: BinaryOperator, a: number, b: number): number | undefined {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '%':
      return b === 0 || Math.abs(b) > 2 ** 51 ? undefined : ((a % b) + b) % b;
    default:
      return undefined;
  }
}

function power(a: Int, b: Int): Value {
  if (b < 0) {
    if (Number(a) === 0) throw new PythonError('ZeroDivisionError', '0.0 cannot be raised to a negative power');
    return new Float(asFloat(a) ** asFloat(b));
  }
  const bits = BigInt(a).toString(16).length * 4;
  if (bits > 4 && Number(b) * (bits - 4) > 16_000)
    throw new PythonError('OverflowError', 'int too large for a template');
  spend(100);
  if (a === 0 || a === 1) return Number(b) === 0 ? 1 : a;
  if (a === -1) return BigInt(b) % 2n === 0n ? 1 : -1;
  if (Number(b) > 16_000) throw new PythonError('OverflowError', 'int too large for a template');
  return checkedInt(BigInt(a) ** BigInt(b));
}

function floats(operator: BinaryOperator, a: number, b: number): Float {
  switch (operator) {
    case '+':
      return new Float(a + b);
    case '-':
      return new Float(a - b);
    case '*':
      return new Float(a * b);
    case '/':
      if (b === 0) throw new PythonError('ZeroDivisionError', 'float division by zero');
      return new Float(a / b);
    case '**':
      return floatPower(a, b);
    default: {
      if (b === 0) throw new PythonError('ZeroDivisionError', 'float modulo');
      const [quotient, rest] = floatDivision(a, b);
      return new Float(operator === '%' ? rest : quotient);
    }
  }
}

function floatPower(a: number, b: number): Float {
  if (a === 0 && b < 0) throw new PythonError('ZeroDivisionError', '0.0 cannot be raised to a negative power');
  if (a < 0 && Number.isFinite(a) && Number.isFinite(b) && !Number.isInteger(b)) throw unsupported('complex numbers');
  if (a === 1 || (a === -1 && !Number.isFinite(b) && !Number.isNaN(b))) return new Float(1);
  const result = a ** b;
  if (!Number.isFinite(result) && Number.isFinite(a) && Number.isFinite(b))
    throw new PythonError('OverflowError', 'Numerical result out of range');
  return new Float(result);
}

/** As Python's `divmod`: the rest has the divisor's sign. */
function floatDivision(a: number, b: number): [number, number] {
  let rest = a % b;
  let quotient = (a - rest) / b;
  if (rest !== 0) {
    if (b < 0 !== rest < 0) {
      rest += b;
      quotient -= 1;
    }
  } else rest = b < 0 ? -0 : 0;
  if (quotient === 0) return [a / b < 0 || Object.is(a / b, -0) ? -0 : 0, rest];
  const floor = Math.floor(quotient);
  return [quotient - floor > 0.5 ? floor + 1 : floor, rest];
}

export function unary(operator: '+' | '-', value: Value): Value {
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Float) return operator === '-' ? new Float(-value.value) : value;
  const int = asInt(value);
  if (int === undefined) throw typeError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  return operator === '+' ? int : typeof int === 'bigint' ? checkedInt(-int) : 0 - int;
}

/** How many members a value has. @throws PythonError for what has none */
export function lengthOfValue(value: Value): number {
  const length = lengthIfAny(value);
  if (length === undefined) throw typeError(`object of type '${typeName(value)}' has no len()`);
  return length;
}

/** @returns undefined for what has no length */
export function lengthIfAny(value: Value): number | undefined {
  if (typeof value === 'string') return lengthOf(value);
  if (Array.isArray(value)) return value.length;
  if (value instanceof Markup) return lengthOf(value.text);
  if (value instanceof Tuple) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof View) return value.of.size;
  if (value instanceof Undefined) return 0;
  if (value !== null && typeof value === 'object' && 'length' in value && typeof value.length === 'number')
    return value.length;
  return undefined;
}
