import { escapedCode, floatText, intText } from './text.js';
import { bound } from './arguments.js';
import { sorted, truth } from './compare.js';
import { typeError, valueError } from './errors.js';
import { iterate } from './iterate.js';
import { make, made, spend } from './meter.js';
import { asInt, index } from './numbers.js';
import { Dict, Float, type Named, textOf, Tuple, typeName, type Value } from './values.js';

interface Style {
  readonly ascii: boolean;
  /** The indent of a level; undefined for all on one line. */
  readonly indent: string | undefined;
  readonly between: string;
  readonly afterKey: string;
  readonly sortKeys: boolean;
}

/** Python's `json.dumps`, with the options that transformers gives to the filter. */
export function tojson(value: Value, args: readonly Value[], named: Named): string {
  const [, ascii, indent, separators, sortKeys] = bound(
    'tojson',
    ['x', 'ensure_ascii?', 'indent?', 'separators?', 'sort_keys?'],
    [value, ...args],
    named,
  );
  const unit = indentOf(indent ?? null);
  const [between = unit === undefined ? ', ' : ',', afterKey = ': '] =
    separators === undefined || !truth(separators) ? [] : separatorsOf(separators);
  const style = {
    ascii: ascii !== undefined && truth(ascii),
    indent: unit,
    between,
    afterKey,
    sortKeys: sortKeys !== undefined && truth(sortKeys),
  };
  return made(new JsonWriter(style).write(value, '\n'));
}

function indentOf(indent: Value): string | undefined {
  if (indent === null) return undefined;
  const text = textOf(indent);
  if (text !== undefined) return text;
  if (asInt(indent) === undefined) throw typeError(`can't multiply sequence by non-int of type '${typeName(indent)}'`);
  const width = Math.max(0, index(indent));
  make(width);
  return ' '.repeat(width);
}

function separatorsOf(separators: Value): string[] {
  const parts = [...iterate(separators)].map(textOf);
  if (parts.length !== 2) throw valueError(`found ${parts.length} separators, expected 2`);
  return parts.map((part) => {
    if (part === undefined) throw typeError('separators must be str');
    return part;
  });
}

class JsonWriter {
  readonly #open = new Set<Value>();

  constructor(private readonly style: Style) {}

  /** @param line newline and indentation of what the value stands in */
  write(value: Value, line: string): string {
    spend(1);
    const text = this.#scalar(value);
    if (text !== undefined) return text;
    if (!(value instanceof Dict || value instanceof Tuple || Array.isArray(value)))
      throw typeError(`Object of type ${typeName(value)} is not JSON serializable`);
    if (this.#open.has(value)) throw valueError('Circular reference detected');
    this.#open.add(value);
    const { indent } = this.style;
    const inner = indent === undefined ? '' : line + indent;
    const written = value instanceof Dict ? this.#object(value, inner, line) : this.#array(value, inner, line);
    this.#open.delete(value);
    return written;
  }

  #scalar(value: Value): string | undefined {
    if (value === null) return 'null';
    if (typeof value === 'boolean') return String(value);
    if (typeof value === 'number' || typeof value === 'bigint') return intText(value);
    if (value instanceof Float) return numberText(value.value);
    const text = textOf(value);
    return text === undefined ? undefined : this.#string(text);
  }

  #string(text: string): string {
    make(text.length + 2);
    const written = jsonText(text);
    return this.style.ascii
      ? written.replace(/[^\0-\x7e]/g, (unit) => escapedCode(unit.charCodeAt(0) | 0x10000).replace('\\U0001', '\\u'))
      : written;
  }

  #array(value: Value, inner: string, line: string): string {
    let text = '';
    for (const item of iterate(value)) text += this.#joined(text, inner) + this.write(item, inner);
    return this.#closed('[', text, ']', line);
  }

  #object(dict: Dict, inner: string, line: string): string {
    let entries: Iterable<readonly [Value, Value]> = dict.entries();
    if (this.style.sortKeys)
      entries = sorted(
        [...dict.entries()].map((entry) => new Tuple(entry)),
        (entry) => entry,
      ).map((entry) => (entry as Tuple).items as [Value, Value]);
    let text = '';
    for (const [key, value] of entries)
      text += `${this.#joined(text, inner)}${this.#string(keyText(key))}${this.style.afterKey}${this.write(value, inner)}`;
    return this.#closed('{', text, '}', line);
  }

  #joined(before: string, inner: string): string {
    make(this.style.between.length + inner.length + this.style.afterKey.length);
    return (before === '' ? '' : this.style.between) + inner;
  }

  #closed(open: string, text: string, close: string, line: string): string {
    if (text === '') return open + close;
    make(line.length);
    return open + text + (this.style.indent === undefined ? '' : line) + close;
  }
}

/** A text as JSON, of which only what must be is escaped. */
function jsonText(text: string): string {
  const written = JSON.stringify(text);
  // JSON.stringify escapes halves of pairs, too, which Python leaves.
  return /\\ud[89a-f]/.test(written) && /\p{Cs}/u.test(text)
    ? `"${text.replace(/["\\\0-\x1f]/g, (each) => JSON.stringify(each).slice(1, -1))}"`
    : written;
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value < 0 ? '-Infinity' : 'Infinity';
  return floatText(value);
}

function keyText(key: Value): string {
  const text = textOf(key);
  if (text !== undefined) return text;
  if (key === null) return 'null';
  if (typeof key === 'boolean') return String(key);
  if (typeof key === 'number' || typeof key === 'bigint') return intText(key);
  if (key instanceof Float) return numberText(key.value);
  throw typeError(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}
