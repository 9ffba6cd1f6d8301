import { isObject } from '../../arguments/isObject.js';
import { PROMPTS, TEXT_LISTS } from '../../rows/rowFields.js';
import { ROW_FIELDS } from '../parseRow.js';

type Columns = Readonly<Record<string, string>>;

/**
 * The column of each field of a row: the one that it is said to be in, else the one of its own name. Where a prompt is
 * said to be in a column, the other ways to give one are not looked for.
 */
export function columnOf(field: string, columns: Columns): string | undefined {
  const named = Object.hasOwn(columns, field) ? columns[field] : undefined;
  if (named !== undefined) return named;
  const prompts: readonly string[] = PROMPTS;
  return prompts.includes(field) && prompts.some((prompt) => Object.hasOwn(columns, prompt)) ? undefined : field;
}

/**
 * An object with the fields of a row taken from the columns that hold them; what no field is taken from stays. What is
 * no object stays as it is.
 */
export function mappedFields(value: unknown, columns: Columns): unknown {
  if (!isObject(value)) return value;
  const entries = new Map(Object.entries(value).filter(([name]) => !ROW_FIELDS.has(name)));
  for (const field of [...ROW_FIELDS, ...TEXT_LISTS]) {
    const column = columnOf(field, columns);
    if (column !== undefined && Object.hasOwn(value, column)) entries.set(field, value[column]);
  }
  return Object.fromEntries(entries);
}
