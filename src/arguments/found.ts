import { isObject } from './isObject.js';

const MOST_CHARACTERS = 80;

/**
 * A value in the words of an error message, on one line and short: `"2"`, `2`, `NaN`, `5n`, `undefined`, `null`, `an
 * array of 3`, `an object with id, prompt`. Never throws.
 */
export function found(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return quoted(shortened(value));
    case 'bigint':
      return `${value}n`;
    case 'function':
      return 'a function';
    case 'symbol':
      return 'a symbol';
    case 'object':
      return value === null ? 'null' : describeObject(value);
    default:
      return String(value);
  }
}

function describeObject(value: object): string {
  try {
    if (Array.isArray(value) || ArrayBuffer.isView(value))
      return `an array of ${(value as unknown as ArrayLike<unknown>).length}`;
    const keys = Object.keys(value);
    if (keys.length === 0) return 'an empty object';
    return `an object with ${visible(shortened(keys.slice(0, 3).join(', ')))}${keys.length > 3 ? ', …' : ''}`;
  } catch {
    return 'an object'; // a revoked proxy, say
  }
}

/**
 * A value of a file or a row in the words of `found`, but for those of JSON: what is absent is `nothing`, a bigint a
 * number like any, and of an object no more is said, since its keys are the file's.
 */
export function foundInFile(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'bigint') return String(value);
  return isObject(value) && !ArrayBuffer.isView(value) ? 'an object' : found(value);
}

/** A field of a row in the words of `foundInFile`, shorter: rows may be megabytes long and errors must not be. */
export function foundInRow(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (typeof value !== 'string') return foundInFile(value);
  return value.length > 40 ? `a string of ${value.length} characters` : `the string ${found(value)}`;
}

/**
 * A value as it stands in a document or a row: the JSON of objects and arrays; the rest, and what JSON cannot hold, in
 * the words of `found`. Never throws.
 */
export function foundJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return found(value);
  try {
    return shortened(visible(JSON.stringify(value)));
  } catch {
    return found(value); // a cycle, a BigInt in it, what makes no text of itself
  }
}

/** A text in the quotes of JSON, on one line of whatever shows it. */
export function quoted(text: string): string {
  return visible(JSON.stringify(text));
}

/**
 * The characters that move a terminal's cursor, or turn around what stands beside them; JSON escapes the first 32 only.
 */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function visible(text: string): string {
  return text.replace(INVISIBLE, (character) =>
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}

/** The beginning of a long text, for an error message. */
export function shortened(text: string, most = MOST_CHARACTERS): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
