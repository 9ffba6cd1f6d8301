import { found } from '../../arguments/found.js';
import { losesChoices, readWithDigits } from '../../arguments/jsonNumbers.js';
import { exceedsMemory } from '../../arguments/jsonMemory.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { RowError } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { PAIRS, PROMPTS, TEXT_LISTS } from '../../rows/rowFields.js';
import { isShortJson, longJson, TOO_MANY_VALUES, type ReadJson } from './longJson.js';
import { columnOf, likeParameters, parseRow, ROW_FIELDS } from './parseRow.js';
import type { TakenColumns } from './RowFormat.js';

type Columns = Readonly<Record<string, string>>;

const BEGINS_JSON = /^\s*[[{]/;
const WORDS: ReadonlySet<string> = new Set(['id', 'prompt', 'query', 'document']);
const LISTS: ReadonlySet<string> = new Set([
  'messages',
  'tokens',
  'stop',
  'tools',
  'templateArgs',
  'responseFormat',
  'response_format',
  ...TEXT_LISTS,
  'documents',
]);

/**
 * Which columns of a table hold fields of a row: what a row is by the columns called so, its parameters by those alone
 * that `columns` names, as a column `temperature` or `seed` is data in many a table.
 * @param ownTexts whether columns called `labels` and `completions` are a row's own; else they are like parameters
 * @throws JobFileError for more columns than may be, for a name that two of them have, and for one that is named and
 * not there
 */
export function fieldsOfTable(
  name: string,
  header: readonly string[],
  columns: Columns = {},
  ownTexts = true,
): readonly (readonly [field: string, column: string])[] {
  checkColumnCount(name, header.length, 'columns');
  const there = new Set<string>();
  const twice = header.find((column) => there.size === there.add(column).size);
  if (twice !== undefined) throw new JobFileError(name, `found two columns ${found(twice)}, expected each name once`);
  const missing = Object.values(columns).find((column) => !there.has(column));
  if (missing !== undefined)
    throw new JobFileError(
      name,
      `found no column ${found(missing)}, which \`columns\` names, expected one of ${listed(header)}`,
    );
  return [...ROW_FIELDS, ...TEXT_LISTS, ...PAIRS].flatMap((field) => {
    const column = columnOf(field, columns, true, ownTexts);
    return column !== undefined && there.has(column) ? [[field, column] as const] : [];
  });
}

/** @param what of them there are so many @throws JobFileError for more columns than a table may have */
function checkColumnCount(name: string, count: number, what: string): void {
  const { tableColumns: most } = ROW_LIMITS;
  if (count > most) throw new JobFileError(name, `found ${count} ${what}, expected at most ${most} columns of a table`);
}

/** Gives what a program, or a person, is told of the columns. */
export function takenColumns(
  fields: ReturnType<typeof fieldsOfTable>,
  header: readonly string[],
  columns: Columns | undefined,
  ownTexts = true,
): TakenColumns {
  return { fields: Object.fromEntries(fields), likeParameters: likeParameters(header, columns, ownTexts) };
}

/** @throws JobFileError where no column holds prompts */
export function checkPromptColumn(name: string, header: readonly string[], columns: Columns | undefined): void {
  const prompts: readonly string[] = PROMPTS;
  const fields = fieldsOfTable(name, header, columns).map(([field]) => field);
  if (fields.some((field) => prompts.includes(field))) return;
  // What is ranked.
  if (fields.includes('query') && (fields.includes('document') || fields.includes('documents'))) return;
  throw new JobFileError(
    name,
    `found the columns ${listed(header)}, expected one called prompt, messages or tokens; \`columns prompt=COLUMN\` says which one it is`,
  );
}

/**
 * A row of a table, with all of its columns as `carry`. Text in a column of numbers or lists is read as JSON writes
 * them; an empty one is absent.
 * @param number the row's number from 1
 * @param templated all columns are values for a `promptTemplate`
 * @param read values of JSON that are known already
 */
export function tableRow(
  carry: Readonly<Record<string, unknown>>,
  fields: ReturnType<typeof fieldsOfTable>,
  number: number,
  templated = false,
  read?: ReadonlyMap<string, unknown>,
): RowInput {
  try {
    const values = Object.fromEntries(
      fields.map(([field, column]) => [field, read?.has(field) ? read.get(field) : fieldOf(field, carry[column])]),
    );
    return { ...parseRow(values, number, false, templated && { ...values, ...carry }), carry };
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    const { rowCode: code, message } = error;
    return { id: number, duplicate: false, error: { code, message: `row ${number}, ${message}` }, carry };
  }
}

/** The same; long values of JSON are read in slices. */
export function tableRowInTurns(
  carry: Readonly<Record<string, unknown>>,
  fields: ReturnType<typeof fieldsOfTable>,
  number: number,
  templated = false,
): RowInput | Promise<RowInput> {
  const long = fields.filter(([field, column]) => isLongJson(field, carry[column]));
  if (long.length === 0) return tableRow(carry, fields, number, templated);
  return (async () => {
    const read = new Map<string, unknown>();
    for (const [field, column] of long) {
      const text = carry[column] as string;
      // What cannot be read is told as any other value.
      const value = await longJson(Buffer.from(text), text).catch(() => undefined);
      if (value !== undefined) read.set(field, exact(value, text));
    }
    return tableRow(carry, fields, number, templated, read);
  })();
}

/**
 * @throws JobFileError for a row with a field that is no column of the table that is being written, whose header stands
 * already
 */
export function checkColumns(
  name: string,
  columns: ReadonlySet<string>,
  carry: Readonly<Record<string, unknown>>,
): void {
  const other = Object.keys(carry).find((column) => !columns.has(column));
  if (other === undefined) return;
  throw new JobFileError(
    name,
    `found a row with the field ${found(other)}, expected the fields of the first row, ${listed([...columns])}; write into a file, which has columns for all`,
  );
}

function fieldOf(field: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value !== 'string') return value;
  if (field === 'prompt') return value;
  if (value === '') return undefined;
  if (WORDS.has(field)) return value;
  if (LISTS.has(field)) return BEGINS_JSON.test(value) ? orText(field, value) : value;
  return /^\s*[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?\s*$/i.test(value) ? Number(value) : value;
}

/** @throws RowError for what would take more than a row may */
function orText(field: string, text: string): unknown {
  if (
    !isShortJson(text.length) &&
    (text.length > ROW_LIMITS.lineBytes || exceedsMemory(Buffer.from(text), ROW_LIMITS.rowBytes))
  )
    throw new RowError('limit', `${field}: ${TOO_MANY_VALUES}`);
  try {
    const [read, written] = readWithDigits(text);
    return exact({ read, written }, text);
  } catch {
    return text;
  }
}

function isLongJson(field: string, value: unknown): boolean {
  return LISTS.has(field) && typeof value === 'string' && !isShortJson(value.length) && BEGINS_JSON.test(value);
}

/** A schema whose choices lose digits is none: as text it is refused. */
function exact({ read, written }: ReadJson, text: string): unknown {
  return losesChoices(read, written) ? text : read;
}

function listed(names: readonly string[]): string {
  const shown = names
    .slice(0, 20)
    .map((name) => found(name))
    .join(', ');
  return names.length > 20 ? `${shown}, …` : shown;
}
