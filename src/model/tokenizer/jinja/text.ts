import { PythonError, unsupported } from './errors.js';
import { make, spend } from './meter.js';
import {
  Attributed,
  Dict,
  Float,
  Macro,
  Markup,
  Namespace,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from './values.js';

/** A value's text as `str()` gives it. */
export function str(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return '';
  return repr(value);
}

/** A value as `repr()` writes it. */
export function repr(value: Value): string {
  return new Writer().write(value);
}

/** A whole number's digits. @throws PythonError beyond Python's own bound */
export function intText(value: number | bigint): string {
  const text = value.toString();
  if (text.length > 4301 || (text.length > 4300 && !text.startsWith('-')))
    throw new PythonError('ValueError', 'Exceeds the limit (4300 digits) for integer string conversion');
  return text;
}

/** The shortest digits that read as the same number, as Python writes them: 1.0, 1e-05. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value < 0 ? '-inf' : 'inf';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [mantissa = '', power = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(power);
  const sign = value < 0 ? '-' : '';
  if (exponent < -4 || exponent >= 16) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    return `${sign}${digits.charAt(0)}${fraction}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  return `${sign}${digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')}.${digits.slice(exponent + 1) || '0'}`;
}

const UNPRINTABLE = /[\p{C}\p{Z}\\]/u;

/** A text in quotes, with escapes for what cannot be printed. */
export function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  if (!UNPRINTABLE.test(text.replaceAll(' ', ''))) {
    if (!text.includes("'") || quote === '"') return quote + text + quote;
  }
  let result = quote;
  for (const character of text) result += escaped(character, quote);
  return result + quote;
}

function escaped(character: string, quote: string): string {
  if (character === quote || character === '\\') return `\\${character}`;
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  if (character === '\t') return '\\t';
  if (character === ' ' || !UNPRINTABLE.test(character)) return character;
  return escapedCode(character.codePointAt(0) ?? 0);
}

/** A character by its number. */
export function escapedCode(code: number): string {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

class Writer {
  /** Lists and dicts that are being written, should one hold itself. */
  readonly #open = new Set<Value>();

  write(value: Value): string {
    spend(1);
    const text = this.#text(value);
    make(text.length);
    return text;
  }

  #text(value: Value): string {
    if (value === null) return 'None';
    if (typeof value === 'boolean') return value ? 'True' : 'False';
    if (typeof value === 'number' || typeof value === 'bigint') return intText(value);
    if (typeof value === 'string') return quoted(value);
    if (value instanceof Float) return floatText(value.value);
    if (value instanceof Markup) return `Markup(${quoted(value.text)})`;
    if (value instanceof Undefined) return 'Undefined';
    if (Array.isArray(value)) return this.#guarded(value, '[...]', () => `[${this.#list(value)}]`);
    if (value instanceof Tuple) {
      const { items } = value;
      return this.#guarded(value, '(...)', () => `(${this.#list(items)}${items.length === 1 ? ',' : ''})`);
    }
    if (value instanceof Dict) return this.#dict(value);
    if (value instanceof Range)
      return `range(${value.start}, ${value.stop}${value.step === 1 ? '' : `, ${value.step}`})`;
    if (value instanceof View)
      return this.#guarded(value, '...', () => `${value.typeName}([${this.#list(value.values())}])`);
    if (value instanceof Namespace) return `<Namespace ${this.#dict(value.members)}>`;
    if (value instanceof Macro) return `<Macro ${value.name === null ? 'anonymous' : quoted(value.name)}>`;
    if (value instanceof Attributed) {
      const own = value.attribute('__repr__');
      if (typeof own === 'string') return own;
    }
    // What Python writes of it has an address in it, which is another one each time.
    throw unsupported(`the text of a ${typeName(value)}`);
  }

  #guarded(value: Value, again: string, write: () => string): string {
    if (this.#open.has(value)) return again;
    this.#open.add(value);
    const text = write();
    this.#open.delete(value);
    return text;
  }

  #list(items: Iterable<Value>): string {
    let text = '';
    for (const item of items) text += `${text === '' ? '' : ', '}${this.write(item)}`;
    return text;
  }

  #dict(dict: Dict): string {
    return this.#guarded(dict, '{...}', () => {
      let text = '';
      for (const [key, value] of dict.entries())
        text += `${text === '' ? '' : ', '}${this.write(key)}: ${this.write(value)}`;
      return `{${text}}`;
    });
  }
}
