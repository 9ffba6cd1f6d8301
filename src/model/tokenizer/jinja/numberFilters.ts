import { truth } from './compare.js';
import { rounded, roundedInt, wholeOf } from './decimals.js';
import { PythonError, typeError, valueError } from './errors.js';
import { asInt, binary, index } from './numbers.js';
import { parseFloatText, parseIntText } from './parseNumbers.js';
import { realOf } from './percentFormat.js';
import { intText } from './text.js';
import { checkedInt, Float, textOf, typeName, Undefined, type Value } from './values.js';

type Given = readonly (Value | undefined)[];

const flag = (value: Value | undefined): boolean => value !== undefined && truth(value);

export function round(value: Value, [precision = 0, method = 'common']: Given): Value {
  if (method !== 'common' && method !== 'ceil' && method !== 'floor')
    throw new PythonError('TemplateError', 'method must be common, ceil or floor');
  if (method === 'common') {
    const int = asInt(value);
    if (int !== undefined) {
      if (precision === null) return int;
      return checkedInt(roundedInt(int, index(precision)));
    }
    if (!(value instanceof Float)) throw typeError(`type ${typeName(value)} doesn't define __round__ method`);
    return precision === null
      ? checkedInt(wholeOf(rounded(value.value, 0).value))
      : rounded(value.value, index(precision));
  }
  const power = binary('**', 10, precision);
  const whole = realOf(binary('*', value, power));
  return binary('/', checkedInt(wholeOf(method === 'ceil' ? Math.ceil(whole) : Math.floor(whole))), power);
}

export function int(value: Value, [otherwise = 0, base = 10]: Given): Value {
  const text = textOf(value);
  if (value instanceof Undefined) return value.fail();
  try {
    if (text !== undefined) {
      const radix = index(base);
      const parsed = parseIntText(text, radix);
      if (parsed !== undefined) return parsed;
    } else {
      const whole = asInt(value);
      if (whole !== undefined) return whole;
      if (value instanceof Float) return checkedInt(wholeOf(value.value));
    }
  } catch (error) {
    // int(float('inf')) is no ValueError, and is not caught.
    if (!(error instanceof PythonError) || error.kind === 'OverflowError') throw error;
  }
  if (text === undefined) return otherwise;
  const float = parseFloatText(text);
  if (float === undefined || !Number.isFinite(float)) return otherwise;
  return checkedInt(wholeOf(float));
}

export function float(value: Value, [otherwise = new Float(0)]: Given): Value {
  if (value instanceof Undefined) return value.fail();
  const text = textOf(value);
  if (text !== undefined) {
    const parsed = parseFloatText(text);
    return parsed === undefined ? otherwise : new Float(parsed);
  }
  if (value instanceof Float) return value;
  const whole = asInt(value);
  if (whole === undefined) return otherwise;
  if (!Number.isFinite(Number(whole))) throw new PythonError('OverflowError', 'int too large to convert to float');
  return new Float(Number(whole));
}

export function filesize(value: Value, [binaryUnits]: Given): Value {
  const parsed = float(value, [new Float(Number.NaN)]);
  const bytes = parsed instanceof Float ? parsed.value : Number.NaN;
  if (Number.isNaN(bytes)) throw valueError('could not convert to float');
  const base = flag(binaryUnits) ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${intText(checkedInt(wholeOf(bytes)))} Bytes`;
  const units = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'].map((unit) =>
    flag(binaryUnits) ? `${unit.toUpperCase()}iB` : `${unit}B`,
  );
  let power = 0;
  while (power < units.length - 1 && bytes >= base ** (power + 2)) power++;
  return `${magnitude((base * bytes) / base ** (power + 2))} ${units[power] ?? ''}`;
}

function magnitude(value: number): string {
  const [whole = '0', fraction = '0'] = String(rounded(value, 1).value).split('.');
  return `${whole}.${fraction}`;
}
