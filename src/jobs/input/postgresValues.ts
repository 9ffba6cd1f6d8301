/** Reads a value as Postgres writes it. */
type Reader = (text: string) => unknown;

/** The known facts of a type, by its number. */
export interface PostgresType {
  /** The type of its items, of an array. */
  readonly item?: number;
  /** The delimiter of items. */
  readonly delimiter?: string;
}

const numberOf: Reader = (text) => {
  const number = Number(text);
  // JSON has no word for NaN and infinities, and a number loses digits of whole ones beyond 2^53.
  return Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number) || /[.e]/i.test(text))
    ? number
    : text;
};

/** `bytea_output` is hex. */
const base64Of: Reader = (text) => Buffer.from(text.slice(2), 'hex').toString('base64');

/** By the numbers that Postgres has for its own types. All others are text: numeric, json, dates, moments, uuid, … */
const READERS: Readonly<Record<number, Reader>> = {
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
  if (item === undefined) return READERS[type] ?? ((text) => text);
  const read = readerOf(item);
  return (text) => arrayOf(text, delimiter, read);
}

/** An array as Postgres writes it: `{1,NULL,"a ""b""",{2}}`, with bounds before it where they do not begin at 1. */
function arrayOf(text: string, delimiter: string, read: Reader): unknown {
  let at = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  const quoted = (): string => {
    let value = '';
    for (at += 1; text[at] !== '"' && at < text.length; at += 1) {
      if (text[at] === '\\') at += 1;
      value += text[at] ?? '';
    }
    at += 1;
    return value;
  };
  const bare = (): string => {
    const from = at;
    while (at < text.length && text[at] !== delimiter && text[at] !== '}') at += 1;
    return text.slice(from, at);
  };
  const itemAt = (): unknown => {
    if (text[at] === '{') return list();
    if (text[at] === '"') return read(quoted());
    const value = bare();
    return value.toUpperCase() === 'NULL' ? null : read(value);
  };
  const list = (): unknown[] => {
    const items: unknown[] = [];
    for (at += 1; at < text.length && text[at] !== '}';) {
      items.push(itemAt());
      if (text[at] === delimiter) at += 1;
    }
    at += 1;
    return items;
  };
  return text[at] === '{' ? list() : text;
}
