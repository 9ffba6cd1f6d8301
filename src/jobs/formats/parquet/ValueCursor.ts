import type { DecodedArray, SchemaElement } from 'hyparquet';
import { readValues } from './decodePage.js';
import type { Dictionary } from './Dictionary.js';
import { type PageBytes, TOO_LARGE, valueOf } from './PageBytes.js';
import { checkPlain, fixedValue, lengthAt } from './plainValues.js';
import { RunCursor } from './RunCursor.js';

/** Goes through the values of a page, those that are null left out. */
export interface ValueCursor {
  /** Bytes that it holds beside the page. */
  readonly bytes: number;
  /**
   * The next value as it is stored: a number, a bigint, bytes, of which long ones may be a view of the page
   * (`isForeign`).
   * @param room bytes that it may have; TOO_LARGE for more
   */
  next(room: number): unknown;
  /** Lets go of what can be made of the page again. */
  drop(): void;
}

/** Bytes of a value that is decoded with all others of its page. */
const DECODED_BYTES = 16;
const DECODED_VIEW_BYTES = 128;

/** @param start of the values in the page @param count of them @throws Error in words */
export function valueCursor(
  page: PageBytes,
  start: number,
  encoding: string,
  count: number,
  element: SchemaElement,
  dictionary: Dictionary | undefined,
): ValueCursor {
  const { type, type_length: fixed } = element;
  if (type === undefined) throw new Error('a column has no type');
  const nothing = (): void => undefined;
  if (count === 0) return { bytes: 0, next: () => null, drop: nothing };
  switch (encoding) {
    case 'PLAIN':
      return { bytes: 0, next: plain(page, start, type, count, fixed), drop: nothing };
    case 'PLAIN_DICTIONARY':
    case 'RLE_DICTIONARY': {
      const width = page.view.getUint8(start);
      const places = new RunCursor(page, start + 1, page.bytes.length - start - 1, width, count);
      const size = dictionary?.length ?? 0;
      return {
        bytes: 0,
        next: (room) => {
          const place = places.next();
          if (dictionary === undefined || place >= size)
            throw new Error(`a value is number ${place} of a dictionary of ${size}`);
          return dictionary.at(place, room);
        },
        drop: nothing,
      };
    }
    case 'RLE': {
      if (type !== 'BOOLEAN') break;
      const bits = new RunCursor(page, start + 4, page.view.getUint32(start, true), 1, count);
      return { bytes: 0, next: () => bits.next() === 1, drop: nothing };
    }
  }
  let decoded: DecodedArray | undefined;
  let at = 0;
  const decode = (): DecodedArray => {
    const values = readValues({ view: page.view, offset: start }, encoding, count, element);
    if (values.length !== count) throw new Error(`a page has ${values.length} values, expected ${count}`);
    return values;
  };
  decoded = decode();
  return {
    bytes: count * (type === 'BYTE_ARRAY' || type === 'FIXED_LEN_BYTE_ARRAY' ? DECODED_VIEW_BYTES : DECODED_BYTES),
    next: (room) => {
      decoded ??= decode();
      const value = decoded[at++] as unknown;
      return value instanceof Uint8Array ? (value.length > room ? TOO_LARGE : valueOf(value, 0, value.length)) : value;
    },
    drop: () => {
      decoded = undefined;
    },
  };
}

function plain(page: PageBytes, start: number, type: string, count: number, fixed?: number): (room: number) => unknown {
  checkPlain(page.bytes.length - start, type, count, fixed);
  if (type !== 'BYTE_ARRAY') {
    const value = fixedValue(page, start, type, fixed);
    let nth = 0;
    return () => value(nth++);
  }
  let offset = start;
  return (room) => {
    const length = lengthAt(page, offset);
    offset += 4 + length;
    return length > room ? TOO_LARGE : valueOf(page.bytes, offset - length, offset);
  };
}
