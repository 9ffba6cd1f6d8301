import { isObject, membersOf } from '../../arguments/isObject.js';
import { losesChoices, spelledInParts } from '../../arguments/jsonNumbers.js';
import { inTurns } from '../../collections/inTurns.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import type { JobTaskName } from '../../Results.js';
import { hasTooManyValues } from '../../rows/checkValues.js';
import { lostFormat } from './parseRow.js';
import { jsonLine, rowMade, type JsonLine } from './jsonLine.js';
import { countLines, filledLines } from './readLines.js';
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
    for await (const line of filledLines(source, maxLineBytes)) {
      const text = jsonLine(line, maxLineBytes);
      const value = text instanceof Promise ? await text : text;
      const spelled = value.bad === undefined ? withSpelling(value) : undefined;
      const row =
        value.bad ?? rowOf(value, spelled instanceof Promise ? await spelled : spelled, line.number, carryFields, task);
      const made = rowMade(line);
      if (made) await made;
      yield row;
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

/** Tells whether a file that begins so holds requests, by the keys of its first lines. */
export function isOpenaiBatch(start: string): boolean {
  return requestsAmong(start) === 'all';
}

/**
 * Tells whether the first lines are requests; lines that are no JSON say nothing. `mixed`: some are, and others are
 * rows of another kind.
 */
export function requestsAmong(start: string): 'all' | 'none' | 'mixed' {
  const lines = start.replace(/^\ufeff/, '').split('\n');
  const kinds = lines.map((line, at) => kindOf(line.trim(), at === lines.length - 1));
  const [requests, rows] = [kinds.includes('request'), kinds.includes('row')];
  return requests ? (rows ? 'mixed' : 'all') : 'none';
}

const KEYS = ['custom_id', 'url', 'body'];

/** @param last whether the line may go on after what is looked at */
function kindOf(line: string, last: boolean): 'request' | 'row' | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (!isObject(value)) return undefined;
    return KEYS.every((key) => Object.hasOwn(value, key)) ? 'request' : 'row';
  } catch {
    return last && line.startsWith('{') && KEYS.every((key) => line.includes(`"${key}"`)) ? 'request' : undefined;
  }
}

/** The fields that answers are held to: numbers in them have to be those that are written. */
const FORMATS = ['response_format', 'tools'] as const;

/** Fields of a body that go to the chat template, where numbers are as they are written. */
const SPELLED = ['messages', 'tools', 'chat_template_kwargs'] as const;

/** The value of a line with the spelling of its numbers, if it may have such fields. */
function withSpelling({ read, json }: Exclude<JsonLine, { readonly bad: unknown }>): unknown {
  const { messages, tools, chat_template_kwargs: templateArgs } = membersOf(membersOf(read)['body']);
  // Of what is refused for its length nothing more is made.
  return SPELLED.some((name) => json.includes(`"${name}"`)) &&
    !hasTooManyValues({ messages, tools, templateArgs }, ROW_LIMITS.conversationValues)
    ? inTurns(spelledInParts(json, read))
    : read;
}

function spelledFields(request: unknown, spelled: unknown): unknown {
  if (spelled === request || !isObject(request)) return request;
  const { body } = request;
  if (!isObject(body)) return request;
  return { ...request, body: spelledBody(body, membersOf(membersOf(spelled)['body'])) };
}

/** A body in which numbers that go to the chat template are as they are written. @param spelled all of it so */
export function spelledBody(
  body: Readonly<Record<string, unknown>>,
  spelled: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const names = SPELLED.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(names.map((name) => [name, spelled[name]])) };
}

/** The field of a body whose format is not what was written any more; undefined where there is none. */
export function lostField(
  body: Readonly<Record<string, unknown>>,
  written: Readonly<Record<string, unknown>>,
): string | undefined {
  return FORMATS.find((name) => losesChoices(body[name], written[name]));
}

function rowOf(
  { read: request, written }: Exclude<JsonLine, { readonly bad: unknown }>,
  spelled: unknown,
  number: number,
  carryFields: boolean,
  task: JobTaskName,
): RowInput {
  const lost = lostField(membersOf(membersOf(request)['body']), membersOf(membersOf(written)['body']));
  const asked = requestedRow(spelledFields(request, spelled), number, task);
  const row = lost !== undefined && !('error' in asked) ? lostFormat(asked, `body.${lost}`) : asked;
  if (!carryFields) return row;
  const { custom_id: id, ...carry } = membersOf(request);
  // One that is no id of a row says all the same whose error it is.
  return { ...row, carry: typeof id === 'string' || id === undefined ? carry : { custom_id: id, ...carry } };
}
