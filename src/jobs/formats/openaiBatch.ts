import { isUtf8 } from 'node:buffer';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { losesChoices, readWithDigits } from '../../arguments/jsonNumbers.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import type { JobTaskName } from '../../Results.js';
import { lineWithoutRow, lostFormat } from './parseRow.js';
import { countLines, filledLines, noText, tooLong } from './readLines.js';
import { answerLine } from './openaiAnswer.js';
import { requestedRow } from './openaiRequest.js';
import type { FinishedRow, RowFormat } from './RowFormat.js';

/**
 * Files of OpenAI's Batch API: a request a line, and a line an answer; rows that failed as the lines of its error file.
 */
export const openaiBatch: RowFormat = {
  name: 'openai-batch',
  extensions: [],
  appendable: true,
  carries: 'exact',
  joinsSamples: true,
  tasks: ['generate', 'embed'],
  begins: isOpenaiBatch,
  async *rows(source, { carryFields, maxLineBytes, task = 'generate' }) {
    for await (const { number, bytes } of filledLines(source, maxLineBytes)) {
      if (bytes === undefined) yield tooLong(number, maxLineBytes);
      else if (!isUtf8(bytes)) yield noText(number, 'invalid-json');
      else yield rowOf(bytes.toString('utf8'), number, carryFields, task);
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  /** Answers of one row that follow one another, its samples, are choices of one line. */
  async *encode(results) {
    let choices: FinishedRow[] = [];
    for await (const row of results) {
      const [first] = choices;
      if (first !== undefined && first.result.index !== row.result.index) {
        yield answerLine(first, choices);
        choices = [];
      }
      choices.push(row);
    }
    const [last] = choices;
    if (last !== undefined) yield answerLine(last, choices);
  },
};

/** Whether a file that begins so holds requests, told by the keys of its first lines. */
export function isOpenaiBatch(start: string): boolean {
  return requestsAmong(start) === 'all';
}

/**
 * Whether the first lines are requests; lines that are no JSON say nothing. `mixed`: some are, and others are rows of
 * another kind.
 */
export function requestsAmong(start: string): 'all' | 'none' | 'mixed' {
  const lines = start.replace(/^\ufeff/, '').split('\n');
  const kinds = lines.map((line, at) => kindOf(line.trim(), at === lines.length - 1));
  const [requests, rows] = [kinds.includes('request'), kinds.includes('row')];
  return requests ? (rows ? 'mixed' : 'all') : 'none';
}

const KEYS = ['custom_id', 'url', 'body'];

/** @param last whether the line may go on behind what is looked at */
function kindOf(line: string, last: boolean): 'request' | 'row' | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (!isObject(value)) return undefined;
    return KEYS.every((key) => Object.hasOwn(value, key)) ? 'request' : 'row';
  } catch {
    return last && line.startsWith('{') && KEYS.every((key) => line.includes(`"${key}"`)) ? 'request' : undefined;
  }
}

function rowOf(line: string, number: number, carryFields: boolean, task: JobTaskName): RowInput {
  let request: unknown;
  let lost = false;
  try {
    const [read, written] = readWithDigits(line);
    const format = (of: unknown): unknown => membersOf(membersOf(of)['body'])['response_format'];
    [request, lost] = [read, losesChoices(format(read), format(written))];
  } catch (error) {
    return lineWithoutRow(
      number,
      'invalid-json',
      `line ${number}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const asked = requestedRow(request, number, task);
  const row = lost && !('error' in asked) ? lostFormat(asked, 'body.response_format') : asked;
  if (!carryFields) return row;
  const { custom_id: id, ...carry } = membersOf(request);
  // One that is no id of a row says all the same whose error it is.
  return { ...row, carry: typeof id === 'string' || id === undefined ? carry : { custom_id: id, ...carry } };
}
