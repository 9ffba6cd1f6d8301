import { foundInRow } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { LOST_CHOICES } from '../../arguments/jsonNumbers.js';
import { RowError, type RowErrorCode } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { TemplateInput } from '../../model/Tokenizer.js';
import type { BadRow, Row, RowInput, RowPrompt } from '../../Row.js';
import { checkValues } from '../../rows/checkValues.js';
import { readMessages } from '../../rows/messages.js';
import { misspelt } from '../../rows/misspelt.js';
import {
  isAbsent,
  NUMBERS,
  PAIRS,
  promptField,
  PROMPTS,
  TEXT_LISTS,
  TOKEN_LISTS,
  wrongType,
} from '../../rows/rowFields.js';
import { responseFormatOf } from '../../rows/responseFormat.js';
import type { ToolChoice } from '../../rows/toolCalls.js';

/** The fields that are ours. */
export const ROW_FIELDS: ReadonlySet<string> = new Set([
  'id',
  ...PROMPTS,
  ...NUMBERS,
  ...TOKEN_LISTS,
  'stop',
  'tools',
  'toolChoice',
  'tool_choice',
  'parallelToolCalls',
  'parallel_tool_calls',
  'templateArgs',
  'responseFormat',
  'response_format',
]);

/**
 * Fields that say what a row is, and not how it is answered: columns that are called so hold them. Where lines are data
 * (tables, lines of JSON under a `promptTemplate`), all other fields are in the columns that are named for them alone.
 */
const CONTENTS: ReadonlySet<string> = new Set(['id', ...PROMPTS, ...TEXT_LISTS, ...PAIRS]);
/** The same where the run says what all rows are classified or scored by. */
const PROMPTS_ALONE: ReadonlySet<string> = new Set(['id', ...PROMPTS, ...PAIRS]);

function contents(ownTexts: boolean): ReadonlySet<string> {
  return ownTexts ? CONTENTS : PROMPTS_ALONE;
}

/**
 * Reads a row out of a parsed line. Checks types only; the engine checks ranges. A field that is null counts as absent,
 * as tables exported to JSON write it. `__proto__` in it is an ordinary own field; nothing here copies fields by
 * assignment.
 * @param line the line's number from 1: the id of a row that has none, which another row may be given (`duplicate` is
 * false)
 * @param carried whether fields that are not ours, or these, are carried
 * @param templated whether all fields, or these, are values for a `promptTemplate`: they go into `fields`, and no
 * prompt is looked for. True: the line is data, and nothing in it but an id, labels and completions is a field of ours
 * @param ownTexts whether labels and completions of such a line are
 */
export function parseRow(
  value: unknown,
  line: number,
  carried: boolean | Readonly<Record<string, unknown>>,
  templated: boolean | Readonly<Record<string, unknown>> = false,
  ownTexts = true,
): RowInput {
  if (!isObject(value)) {
    return lineWithoutRow(
      line,
      'invalid-row',
      `found ${foundInRow(value)}, expected an object with one of prompt, messages and tokens`,
    );
  }
  const others = carried === true ? otherFields(value, {}, templated === true) : carried === false ? {} : carried;
  const carry = Object.keys(others).length > 0 ? { carry: others } : {};
  const own = templated === true ? contentsOf(value, ownTexts) : value;
  let identity: Pick<BadRow, 'id' | 'duplicate'> = { id: line, duplicate: false };
  try {
    const id = readId(value['id']);
    if (id !== undefined) identity = { id };
    const fields = templated === true ? value : templated;
    checkValues(own, ROW_LIMITS.conversationValues);
    if (carried === false && fields === false) checkNames(value);
    return {
      ...identity,
      ...(fields === false ? readPrompt(value) : { fields }),
      ...readTemplateInput(own),
      ...readToolChoice(own),
      ...readFormat(own),
      ...readNumbers(own),
      ...readStop(own['stop']),
      ...readLists(own),
      ...(fields === false && readPair(own)),
      ...carry,
    };
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    return { ...identity, error: { code: error.rowCode, message: error.message }, ...carry };
  }
}

function contentsOf(value: Readonly<Record<string, unknown>>, ownTexts: boolean): Readonly<Record<string, unknown>> {
  const ours = contents(ownTexts);
  return Object.fromEntries(Object.entries(value).filter(([name]) => ours.has(name)));
}

/** A line that is no row: nobody gave it an id. */
export function lineWithoutRow(line: number, code: RowErrorCode, message: string): BadRow {
  return { id: line, duplicate: false, error: { code, message } };
}

/** A row whose format, in that field, is not what stands in the file any more. */
export function lostFormat({ id, duplicate, carry }: Omit<BadRow, 'error'>, field: string): BadRow {
  return {
    ...(id !== undefined && { id }),
    ...(duplicate !== undefined && { duplicate }),
    ...(carry && { carry }),
    error: { code: 'unsupported-schema', message: `${field}: ${LOST_CHOICES}` },
  };
}

/**
 * A field that is nearly one of ours would be left out in silence. Where others are carried, or go into a template, it
 * is one of them. @throws RowError
 */
function checkNames(value: Readonly<Record<string, unknown>>): void {
  const wrong = misspelt(value);
  if (wrong === undefined || isAbsent(value[wrong.name])) return;
  throw new RowError('invalid-row', `found the field ${JSON.stringify(wrong.name)}, expected ${wrong.meant}`);
}

/** @throws RowError */
function readId(value: unknown): string | number | undefined {
  if (isAbsent(value)) return undefined;
  if (typeof value === 'string') return value;
  if (typeof value !== 'number') throw wrongType('id', value, 'a string or a number');
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new RowError('invalid-row', 'id: found a number that loses digits when it is read; write it as a string');
  }
  return value;
}

function readPrompt(row: Readonly<Record<string, unknown>>): RowPrompt {
  const { prompt, messages, tokens } = row;
  if (isPair(row)) return readPair(row) as RowPrompt;
  const field = promptField(row);
  if (field === 'prompt') {
    if (typeof prompt !== 'string') throw wrongType('prompt', prompt, 'a string');
    return { prompt };
  }
  if (field === 'messages') return { messages: readMessages(messages) };
  if (!Array.isArray(tokens)) throw wrongType('tokens', tokens, 'an array of token ids');
  return { tokens: tokens.map(readToken) };
}

/** Tells whether a row has no prompt, and texts to be ranked instead. */
function isPair(row: Readonly<Record<string, unknown>>): boolean {
  return !isAbsent(row['query']) && PROMPTS.every((name) => isAbsent(row[name]));
}

/** The engine checks what they hold. */
function readPair(row: Readonly<Record<string, unknown>>): Pick<Row, (typeof PAIRS)[number]> {
  return isPair(row)
    ? Object.fromEntries(PAIRS.filter((name) => !isAbsent(row[name])).map((name) => [name, row[name]]))
    : {};
}

function readTemplateInput({ tools, templateArgs }: Readonly<Record<string, unknown>>): TemplateInput {
  if (!isAbsent(tools) && !Array.isArray(tools)) throw wrongType('tools', tools, 'an array of objects');
  if (!isAbsent(templateArgs) && !isObject(templateArgs)) throw wrongType('templateArgs', templateArgs, 'an object');
  return { ...(Array.isArray(tools) && { tools }), ...(isObject(templateArgs) && { templateArgs }) };
}

/** Values of tool choices are looked at where the row is prepared. */
function readToolChoice(row: Readonly<Record<string, unknown>>): Pick<Row, 'toolChoice' | 'parallelToolCalls'> {
  const choice = oneOfNames(row, 'toolChoice', 'tool_choice');
  const several = oneOfNames(row, 'parallelToolCalls', 'parallel_tool_calls');
  if (several !== undefined && typeof several !== 'boolean')
    throw wrongType('parallelToolCalls', several, 'true or false');
  return {
    ...(choice !== undefined && { toolChoice: choice as ToolChoice }),
    ...(several !== undefined && { parallelToolCalls: several }),
  };
}

/** A value that may stand under either name, and not under both. @throws RowError */
function oneOfNames(row: Readonly<Record<string, unknown>>, ours: string, theirs: string): unknown {
  const given = [row[ours], row[theirs]].filter((value) => !isAbsent(value));
  if (given.length > 1) throw new RowError('invalid-row', `found both ${ours} and ${theirs}, expected one of them`);
  return given[0];
}

/** The subject of an error is named where the row is prepared. */
function readFormat(row: Readonly<Record<string, unknown>>): Pick<Row, 'responseFormat'> {
  const given = oneOfNames(row, 'responseFormat', 'response_format');
  return given === undefined ? {} : { responseFormat: responseFormatOf(given) };
}

function readToken(value: unknown, at: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value))
    throw wrongType(`tokens[${at}]`, value, 'a token id (a whole number)');
  return value;
}

function readNumbers(row: Readonly<Record<string, unknown>>): Partial<Record<(typeof NUMBERS)[number], number>> {
  const numbers: Partial<Record<(typeof NUMBERS)[number], number>> = {};
  for (const name of NUMBERS) {
    const value = row[name];
    if (isAbsent(value)) continue;
    if (typeof value !== 'number') throw wrongType(name, value, 'a number');
    numbers[name] = value;
  }
  return numbers;
}

function readStop(value: unknown): Pick<Row, 'stop'> {
  if (isAbsent(value)) return {};
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const stop = list.map((entry, at) => {
    if (typeof entry !== 'string') throw wrongType(Array.isArray(value) ? `stop[${at}]` : 'stop', entry, 'a string');
    return entry;
  });
  return { stop };
}

/** The engine checks what they hold: labels and completions only where rows are classified or scored. */
function readLists(
  row: Readonly<Record<string, unknown>>,
): Pick<Row, (typeof TEXT_LISTS)[number] | (typeof TOKEN_LISTS)[number]> {
  const given = [...TEXT_LISTS, ...TOKEN_LISTS].filter((name) => !isAbsent(row[name]));
  return Object.fromEntries(given.map((name) => [name, row[name]]));
}

type Columns = Readonly<Record<string, string>>;

/**
 * The column of each field of a row: the one that it is said to be in, else the one of its own name. Where a prompt is
 * said to be in a column, the other ways to give one are not looked for.
 * @param data whether columns are data, so that one is a parameter only where it is said to be
 * @param ownTexts whether labels and completions need not be
 */
export function columnOf(field: string, columns: Columns, data: boolean, ownTexts = true): string | undefined {
  const named = Object.hasOwn(columns, field) ? columns[field] : undefined;
  if (named !== undefined) return named;
  if (data && !contents(ownTexts).has(field)) return undefined;
  const prompts: readonly string[] = PROMPTS;
  return prompts.includes(field) && prompts.some((prompt) => Object.hasOwn(columns, prompt)) ? undefined : field;
}

/**
 * An object with the fields of a row taken from the columns that hold them; of others what is not called as a field.
 * What is no object stays as it is.
 */
export function mappedFields(value: unknown, columns: Columns, data = false, ownTexts = true): unknown {
  if (!isObject(value)) return value;
  const entries = new Map(Object.entries(value).filter(([name]) => !ROW_FIELDS.has(name)));
  for (const field of [...ROW_FIELDS, ...TEXT_LISTS, ...PAIRS]) {
    const column = columnOf(field, columns, data, ownTexts);
    if (column === undefined && data && !ownTexts) entries.delete(field);
    if (column !== undefined && Object.hasOwn(value, column)) entries.set(field, value[column]);
  }
  return Object.fromEntries(entries);
}

/**
 * Tells whether a name is that of a field of ours, and not of one that is said to be elsewhere.
 * @param data of lines that are data the id alone is, and what is said to be
 */
export function isOwnField(name: string, columns: Columns = {}, data = false): boolean {
  const ours = data ? name === 'id' || Object.hasOwn(columns, name) : ROW_FIELDS.has(name);
  return ours && columnOf(name, columns, data) === name;
}

/** The fields that are not ours: of those that are called as ours, the ones whose field is taken from elsewhere. */
export function otherFields(
  value: Readonly<Record<string, unknown>>,
  columns: Columns = {},
  data = false,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !isOwnField(name, columns, data)));
}

/** Columns that are called as parameters of a row and are none, as nobody said that they are. */
export function likeParameters(names: readonly string[], columns: Columns = {}, ownTexts = true): readonly string[] {
  const texts: readonly string[] = TEXT_LISTS;
  const ours = contents(ownTexts);
  return names.filter(
    (name) =>
      (ROW_FIELDS.has(name) || texts.includes(name)) && !ours.has(name) && !Object.values(columns).includes(name),
  );
}
