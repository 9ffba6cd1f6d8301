import { isUtf8 } from 'node:buffer';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { countLines, filledLines, noText, tooLong } from './lines.js';
import { parseRow } from '../parseRow.js';
import type { RowFormat } from './RowFormat.js';

/** A prompt a line; an answer a line. */
export const text: RowFormat = {
  name: 'text',
  extensions: ['txt', 'text'],
  async *rows(source, { maxLineBytes, templated }) {
    for await (const { number, bytes } of filledLines(source, maxLineBytes)) {
      if (bytes === undefined) yield tooLong(number, maxLineBytes);
      else if (!isUtf8(bytes)) yield noText(number, 'invalid-row');
      else yield parseRow({ prompt: bytes.toString('utf8') }, number, false, templated);
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  /** Line breaks of an answer become blanks, so that line N answers prompt N; a row with an error is an empty line. */
  async *encode(results) {
    for await (const { result } of results) yield `${result.text.replace(/\r\n|[\r\n]/g, ' ')}\n`;
  },
};
