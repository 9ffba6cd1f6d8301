import { isProxy } from 'node:util/types';
import { found } from '../arguments/found.js';
import { isObject, membersOf } from '../arguments/isObject.js';
import { isWithin, rangeWords, wholeRange } from '../arguments/NumberRange.js';
import { RowError, type RowErrorCode } from '../errors/RowError.js';
import type { BadRow, Row, RowFailure, RowInput } from '../Row.js';
import { withQuestionOf } from './askedRow.js';
import { misspelt } from './misspelt.js';
import { isAbsent, NUMBERS, PROMPTS, PAIRS, TEXT_LISTS, TOKEN_LISTS } from './rowFields.js';

const INDICES = wholeRange(0);
const FIELDS = [
  ...PROMPTS,
  ...NUMBERS,
  'stop',
  'tools',
  'toolChoice',
  'parallelToolCalls',
  'templateArgs',
  'fields',
  'wantedSamples',
  'chat',
  'responseFormat',
  'dimensions',
  ...TEXT_LISTS,
  ...PAIRS,
  ...TOKEN_LISTS,
] as const;
const ORDER: ReadonlyMap<string, number> = new Map(FIELDS.map((name, at) => [name, at]));

/**
 * A row as it was given, as a plain object that is safe to read: its fields (null is as good as absent, as tables write
 * it), its `id` and `index` if they are such. What the row says itself is not judged yet. Whatever else was given
 * becomes a bad row that says why. Never throws.
 */
export function readableRow(given: unknown): RowInput {
  const identity: { -readonly [Name in 'id' | 'index' | 'duplicate' | 'carry']?: BadRow[Name] } = {};
  try {
    if (ArrayBuffer.isView(given) || typeof given === 'string') {
      const what = typeof given === 'string' ? `the text ${found(given)}` : `${given.byteLength} bytes`;
      throw new RowError(
        'invalid-row',
        `found ${what}, expected a row, such as { prompt: 'text' }; readRows(stream) makes rows of a file's or a stream's bytes`,
      );
    }
    if (!isObject(given))
      throw new RowError(
        'invalid-row',
        `found ${found(given)}, expected an object with one of prompt, messages and tokens`,
      );
    const { id, index, duplicate, carry } = given;
    if (!isAbsent(carry)) identity.carry = carry as NonNullable<BadRow['carry']>;
    if (typeof duplicate === 'boolean') identity.duplicate = duplicate;
    if (isId(id)) identity.id = id;
    if (isIndex(index)) identity.index = index;
    const { error } = given;
    if (!isAbsent(error)) return { ...identity, error: readError(error) };
    if (!isAbsent(id) && !isId(id))
      throw new RowError('invalid-row', `id: found ${found(id)}, expected a string or a finite number`);
    if (!isAbsent(index) && !isIndex(index))
      throw new RowError('invalid-row', `index: found ${found(index)}, expected ${rangeWords(INDICES, index)}`);
    checkNames(given);
    const fields: Record<string, unknown> = {};
    for (const name of namesIn(given)) {
      const value = given[name];
      if (value !== undefined) fields[name] = value;
    }
    // What the fields hold is judged when the row is prepared.
    return withQuestionOf(given as object as Row, { ...identity, ...(fields as unknown as Row) });
  } catch (error) {
    const { rowCode, message } = orRowError(error);
    return { ...identity, error: { code: rowCode, message } };
  }
}

/**
 * Gives the names of fields that a row may have, in their order: of a row of a file, those that it has. What inherits
 * fields, or answers to names that it does not list, is asked for all.
 */
function namesIn(given: object): readonly string[] {
  if (isProxy(given) || Object.getPrototypeOf(given) !== Object.prototype) return FIELDS;
  const names = Object.getOwnPropertyNames(given);
  if (names.length >= FIELDS.length) return FIELDS;
  return names.filter((name) => ORDER.has(name)).sort((one, other) => (ORDER.get(one) ?? 0) - (ORDER.get(other) ?? 0));
}

/** Gives the error with which reading a row failed: its own error, or what one of its getters threw. */
export function orRowError(error: unknown): RowError {
  if (error instanceof RowError) return error;
  const reason =
    error instanceof Error && typeof error.message === 'string' ? error.message.split('\n', 1)[0] : found(error);
  return new RowError('invalid-row', `the row cannot be read: ${reason}`, { cause: error });
}

/** A field that is nearly one of ours would be left out in silence. @throws RowError */
function checkNames(given: Readonly<Record<string, unknown>>): void {
  const { name, meant } = misspelt(given) ?? {};
  if (name === undefined || given[name] === undefined) return;
  throw new RowError(
    'invalid-row',
    `found the field ${found(name)}, expected ${meant}; what is no field of a row goes into carry`,
  );
}

/** @throws RowError */
function readError(error: unknown): RowFailure {
  const { code, message } = membersOf(error);
  if (typeof code === 'string' && typeof message === 'string') return { code: code as RowErrorCode, message };
  throw new RowError('invalid-row', `error: found ${found(error)}, expected {code, message} with strings, or nothing`);
}

function isId(id: unknown): id is string | number {
  return typeof id === 'string' || (typeof id === 'number' && Number.isFinite(id));
}

function isIndex(index: unknown): index is number {
  return isWithin(index, INDICES);
}

/** Reads what lies deep in a row, and may be unreadable too. @throws RowError */
export function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw orRowError(error);
  }
}
