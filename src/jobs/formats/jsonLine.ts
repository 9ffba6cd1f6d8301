import { isUtf8 } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import { readWithDigits } from '../../arguments/jsonNumbers.js';
import type { BadRow } from '../../Row.js';
import { isShortJson, longJson, TOO_MANY_VALUES } from './longJson.js';
import { lineWithoutRow } from './parseRow.js';
import { noText, tooLong, type Line } from './readLines.js';

/** The value of a line, as JSON.parse reads it and with the digits that it loses; or the row that says why not. */
export type JsonLine =
  | { readonly json: string; readonly read: unknown; readonly written: unknown; readonly bad?: never }
  | { readonly bad: BadRow };

/** Says more of a text that is no JSON. */
type Hint = (json: string) => string;

/**
 * Reads a line's JSON, which is bounded before anything is made of it. A short line is there at once; of a long one is
 * counted first what it would take, and each step of reading it has a turn of the event loop for itself.
 */
export function jsonLine(line: Line, maxLineBytes: number, hint?: Hint): JsonLine | Promise<JsonLine> {
  const { number, bytes } = line;
  if (bytes === undefined) return { bad: tooLong(number, maxLineBytes) };
  if (!isShort(line)) return readLong(bytes, number, hint);
  if (!isUtf8(bytes)) return { bad: noText(number, 'invalid-json') };
  const json = bytes.toString('utf8');
  try {
    const [read, written] = readWithDigits(json);
    return { json, read, written };
  } catch (error) {
    return { bad: notJson(error, number, json, hint) };
  }
}

/** To be awaited when a row has been made of its line: whoever goes on with a long one does it in another turn. */
export function rowMade(line: Line): Promise<void> | undefined {
  return isShort(line) ? undefined : setImmediate();
}

function isShort({ bytes }: Line): boolean {
  return bytes === undefined || isShortJson(bytes.length);
}

async function readLong(bytes: Buffer, number: number, hint: Hint | undefined): Promise<JsonLine> {
  if (!isUtf8(bytes)) return { bad: noText(number, 'invalid-json') };
  const json = bytes.toString('utf8');
  try {
    const value = await longJson(bytes, json);
    if (value !== undefined) return { json, ...value };
  } catch (error) {
    return { bad: notJson(error, number, json, hint) };
  }
  return { bad: lineWithoutRow(number, 'limit', `line ${number}: ${TOO_MANY_VALUES}`) };
}

/** V8's message quotes a piece of the line, so it stays short; a stack overflow on deep nesting ends here too. */
function notJson(error: unknown, number: number, json: string, hint: Hint | undefined): BadRow {
  const reason = error instanceof Error ? error.message : String(error);
  return lineWithoutRow(number, 'invalid-json', `line ${number}: ${reason}${hint?.(json) ?? ''}`);
}
