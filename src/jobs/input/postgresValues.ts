import type { Work } from '../../collections/drained.js';
import type { ValueTally } from './ValueTally.js';

type Read = (text: string) => unknown;
/** Reads a value as Postgres writes it: at once, or, of an array, in parts. */
export type Reader = { readonly whole: Read } | { readonly parts: (text: string, tally: ValueTally) => Work<unknown> };

/** The known facts of a type, by its number. */
export interface PostgresType {
  /** The type of its items, of an array. */
  readonly item?: number;
  /** The delimiter of items. */
  readonly delimiter?: string;
}

const numberOf: Read = (text) => {
  const number = Number(text);
  // JSON has no word for NaN and infinities, and a number loses digits of whole ones beyond 2^53.
  return Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number) || /[.e]/i.test(text))
    ? number
    : text;
};

/** `bytea_output` is hex. */
const base64Of: Read = (text) => Buffer.from(text.slice(2), 'hex').toString('base64');

/** By the numbers that Postgres has for its own types. All others are text: numeric, json, dates, moments, uuid, … */
const READERS: Readonly<Record<number, Read>> = {
  16: (text) => text === 't',
  17: base64Of,
  20: numberOf,
  21: numberOf,
  23: numberOf,
  26: numberOf,
  700: numberOf,
  701: numberOf,
};

/** How values of a type are read, as readers of tables have them: what JSON cannot hold exactly is text. */
export function readerOf(type: number, { item, delimiter = ',' }: PostgresType = {}): Reader {
  const whole = READERS[item ?? type] ?? ((text: string): string => text);
  return item === undefined ? { whole } : { parts: (text, tally) => arrayOf(text, delimiter, whole, tally) };
}

/** Postgres itself has six dimensions at most. */
const MOST_DIMENSIONS = 64;

/**
 * An array as Postgres writes it: `{1,NULL,"a ""b""",{2}}`, with bounds before it where they do not begin at 1. @throws
 * Error for one that no Postgres writes
 */
function* arrayOf(text: string, delimiter: string, read: Read, tally: ValueTally): Work<unknown> {
  let at = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  const quoted = (): string => {
    const pieces: string[] = [];
    let from = at + 1;
    for (at += 1; at < text.length && text[at] !== '"'; at += 1) {
      if (text[at] !== '\\') continue;
      pieces.push(text.slice(from, at));
      from = at += 1;
    }
    pieces.push(text.slice(from, at));
    at += 1;
    return pieces.join('');
  };
  const bare = (): string => {
    const from = at;
    while (at < text.length && text[at] !== delimiter && text[at] !== '}') at += 1;
    return text.slice(from, at);
  };
  const itemAt = (): unknown => {
    if (text[at] === '"') return read(quoted());
    const value = bare();
    return value.toUpperCase() === 'NULL' ? null : read(value);
  };
  const list = function* (depth = 1): Work<unknown[]> {
    if (depth > MOST_DIMENSIONS)
      throw new Error(`found an array of more than ${MOST_DIMENSIONS} dimensions, expected at most so many`);
    const items: unknown[] = tally.member([]);
    for (at += 1; at < text.length && text[at] !== '}';) {
      if (tally.due) yield;
      items.push(text[at] === '{' ? yield* list(depth + 1) : tally.member(itemAt()));
      if (text[at] === delimiter) at += 1;
    }
    at += 1;
    return items;
  };
  return text[at] === '{' ? yield* list() : tally.member(text);
}
