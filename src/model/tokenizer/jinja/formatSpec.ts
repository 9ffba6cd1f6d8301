import { lengthOf } from './characters.js';
import { magnitudeText, powerText } from './decimals.js';
import { PythonError, typeError, unsupported, valueError } from './errors.js';
import { make } from './meter.js';
import { realOf } from './percentFormat.js';
import { floatText, intText, str } from './text.js';
import { Float, textOf, typeName, type Value } from './values.js';

const SPEC = /^(?:([^])?([<>=^]))?([-+ ]?)(z?)(#?)(0?)(\d*)([,_]?)(?:\.(\d+))?([a-zA-Z%]?)$/u;

interface Spec {
  readonly fill: string;
  readonly align: string | undefined;
  readonly sign: string;
  readonly alternate: boolean;
  readonly width: number;
  readonly grouping: string;
  readonly precision: number | undefined;
  readonly type: string;
}

/** `format(value, specification)`. */
export function formatValue(value: Value, specification: string): string {
  if (specification === '') return str(value);
  const text = textOf(value);
  const numeric = typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
  if (text === undefined && !numeric && !(value instanceof Float))
    throw typeError(`unsupported format string passed to ${typeName(value)}.__format__`);
  const spec = parsed(specification, text !== undefined);
  if (text !== undefined) return formatText(text, spec);
  if (value instanceof Float) return formatFloat(value.value, spec);
  const int = typeof value === 'boolean' ? Number(value) : (value as number | bigint);
  if ('eEfFgG%'.includes(spec.type) && spec.type !== '') return formatFloat(realOf(int), spec);
  return formatInt(int, spec);
}

function parsed(specification: string, ofText: boolean): Spec {
  const match = SPEC.exec(specification);
  if (match === null) throw valueError(`Invalid format specifier '${specification}'`);
  const [, fill, align, sign = '', z = '', hash = '', zero = '', width = '', grouping = '', precision, type = ''] =
    match;
  if (z !== '') throw unsupported('the format option z');
  if (ofText && (sign !== '' || hash !== '')) throw valueError('Sign not allowed in string format specifier');
  if (ofText && grouping !== '') throw valueError(`Cannot specify '${grouping}' with 's'.`);
  const zeros = zero !== '' && fill === undefined;
  return {
    fill: fill ?? (zeros ? '0' : ' '),
    align: align ?? (zeros ? (ofText ? '<' : '=') : undefined),
    sign,
    alternate: hash !== '',
    width: width === '' ? 0 : Number(width),
    grouping,
    precision: precision === undefined ? undefined : Number(precision),
    type,
  };
}

function formatText(text: string, spec: Spec): string {
  if (spec.type !== '' && spec.type !== 's')
    throw valueError(`Unknown format code '${spec.type}' for object of type 'str'`);
  if (spec.align === '=') throw valueError("'=' alignment not allowed in string format specifier");
  const cut = spec.precision === undefined ? text : Array.from(text).slice(0, spec.precision).join('');
  return aligned('', cut, spec, '<');
}

function aligned(sign: string, text: string, spec: Spec, usual: string): string {
  const missing = spec.width - lengthOf(text) - sign.length;
  if (missing <= 0) return sign + text;
  make(spec.width * spec.fill.length);
  const align = spec.align ?? usual;
  const left = align === '<' ? 0 : align === '^' ? Math.floor(missing / 2) : missing;
  if (align === '=') return sign + spec.fill.repeat(missing) + text;
  return spec.fill.repeat(left) + sign + text + spec.fill.repeat(missing - left);
}

/** Digits in groups, and zeros before them where these fill the width. */
function grouped(sign: string, digits: string, rest: string, spec: Spec, size: number): string {
  if (spec.grouping === '') return digits + rest;
  let filled = digits;
  const group = (text: string): string =>
    text.replace(new RegExp(`\\B(?=(?:[\\da-fA-F]{${size}})+$)`, 'g'), spec.grouping);
  if (spec.fill === '0' && spec.align === '=') {
    make(spec.width);
    while (group(`0${filled}`).length + rest.length + sign.length <= spec.width) filled = `0${filled}`;
    let text = group(filled);
    // A separator is never first: one more zero stands before it.
    if (text.length + rest.length + sign.length < spec.width) text = group(`0${filled}`);
    return text + rest;
  }
  return group(filled) + rest;
}

function formatInt(int: number | bigint, spec: Spec): string {
  if (spec.precision !== undefined) throw valueError('Precision not allowed in integer format specifier');
  const negative = int < 0;
  const magnitude = negative ? -int : int;
  let sign = negative ? '-' : spec.sign === '-' ? '' : spec.sign;
  const bases: Readonly<Record<string, readonly [number, string]>> = {
    b: [2, '0b'],
    o: [8, '0o'],
    x: [16, '0x'],
    X: [16, '0X'],
  };
  const base = bases[spec.type];
  if (base === undefined) {
    if (spec.type === 'c') {
      if (spec.sign !== '') throw valueError("Sign not allowed with integer format specifier 'c'");
      if (int < 0 || int > 0x10ffff) throw new PythonError('OverflowError', '%c arg not in range(0x110000)');
      return aligned('', String.fromCodePoint(Number(int)), spec, '<');
    }
    if (spec.type === 'n') throw unsupported('the format n');
    if (spec.type !== '' && spec.type !== 'd')
      throw valueError(`Unknown format code '${spec.type}' for object of type 'int'`);
    return aligned(sign, grouped(sign, intText(magnitude), '', spec, 3), spec, '>');
  }
  if (spec.grouping === ',') throw valueError(`Cannot specify ',' with '${spec.type}'.`);
  let digits = magnitude.toString(base[0]);
  if (spec.type === 'X') digits = digits.toUpperCase();
  if (spec.alternate) sign += base[1];
  return aligned(sign, grouped(sign, digits, '', spec, 4), spec, '>');
}

function formatFloat(value: number, spec: Spec): string {
  const sign = value < 0 || Object.is(value, -0) ? '-' : spec.sign === '-' ? '' : spec.sign;
  const magnitude = Math.abs(value);
  let text: string;
  if (spec.type === '%') text = `${magnitudeText(magnitude * 100, 'f', spec.precision ?? 6, spec.alternate)}%`;
  else if (spec.type === '') text = plainFloat(magnitude, spec);
  else if ('eEfFgG'.includes(spec.type))
    text = magnitudeText(magnitude, spec.type, spec.precision ?? 6, spec.alternate);
  else if (spec.type === 'n') throw unsupported('the format n');
  else throw valueError(`Unknown format code '${spec.type}' for object of type 'float'`);
  const [, digits = '', rest = ''] = /^(\d*)(.*)$/.exec(text) ?? [];
  return aligned(sign, grouped(sign, digits, rest, spec, 3), spec, '>');
}

/** Without a type: as `g`, but never without a fraction or a power. */
function plainFloat(magnitude: number, spec: Spec): string {
  if (spec.precision === undefined) return floatText(magnitude);
  if (!Number.isFinite(magnitude)) return floatText(magnitude);
  const precision = Math.max(1, spec.precision);
  const text = magnitudeText(magnitude, 'g', precision, spec.alternate);
  const power = Number(/e(.*)$/.exec(text)?.[1] ?? Number.NaN);
  if (!Number.isNaN(power)) return text;
  // Where all digits stand before the point, the power is written.
  const digits = text.replace('.', '').replace(/^0+/, '').length;
  if (!text.includes('.') && digits >= precision && magnitude !== 0) {
    const mantissa = text.replace(/0+$/, '');
    return `${mantissa.charAt(0)}${mantissa.length > 1 ? `.${mantissa.slice(1)}` : ''}${powerText(text.length - 1)}`;
  }
  return text.includes('.') ? text : `${text}.0`;
}
