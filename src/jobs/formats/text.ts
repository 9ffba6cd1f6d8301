import { isUtf8 } from 'node:buffer';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { AnyResult } from '../../Results.js';
import { countLines, filledLines, noText, tooLong } from './readLines.js';
import type { RowFormat } from './RowFormat.js';

/** A prompt a line, which is a user's message where the model has a chat template; an answer a line. */
export const text: RowFormat = {
  name: 'text',
  extensions: ['txt', 'text'],
  appendable: true,
  byPlace: true,
  async *rows(source, { maxLineBytes, templated = false }) {
    for await (const { number, bytes } of filledLines(source, maxLineBytes)) {
      if (bytes === undefined) yield tooLong(number, maxLineBytes);
      else if (!isUtf8(bytes)) yield noText(number, 'invalid-row');
      else {
        const prompt = bytes.toString('utf8');
        yield { id: number, duplicate: false, chat: 'auto', ...(templated ? { fields: { prompt } } : { prompt }) };
      }
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  /** Line breaks of an answer become blanks, so that line N answers row N; a row with an error is an empty line. */
  async *encode(results) {
    for await (const { result } of results) yield `${result.error ? '' : lineOf(result)}\n`;
  },
};

function lineOf({ text: answer = '', label = answer, scores, embedding }: AnyResult): string {
  const line = scores
    ? JSON.stringify(scores.map((each) => ('logprob' in each ? each.logprob : each.score)))
    : typeof embedding === 'object'
      ? JSON.stringify(embedding)
      : (embedding ?? label);
  return line.replace(/\r\n|[\r\n]/g, ' ');
}
