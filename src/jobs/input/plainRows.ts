import { isObject } from '../../arguments/isObject.js';
import type { RowInput } from '../../Row.js';
import { isRowField, misspelt } from '../../rows/misspelt.js';
import { orRowError, readableRow } from '../../rows/readableRow.js';
import { base64 } from '../formats/columnText.js';
import type { TakenColumns } from '../formats/RowFormat.js';
import { fieldsOfTable, tableRow, takenColumns } from '../formats/tableRow.js';

/** The fields of a program's rows that no row of a database has. */
const MADE = ['fields', 'carry', 'error'] as const;
/** Deeper values are no values of a database: what is made of them tells of it. */
const MOST_DEPTH = 64;

export interface PlainRowOptions {
  readonly columns?: Readonly<Record<string, string>> | undefined;
  readonly ownTexts: boolean;
  readonly templated: boolean;
  /** True where other columns go with the results; `carryFields`: where the caller has said so. */
  readonly carried: boolean;
  readonly carryFields: boolean;
  readonly onColumns?: ((columns: TakenColumns) => void) | undefined;
}

/**
 * Reads rows that a program gives: rows as `Row` has them, or objects whose keys are columns, as cursors of databases
 * give them. Beside `columns` these are rows of a table; else fields and parameters stand under their names. Other
 * columns are carried, and are values for a template.
 */
export function plainRows(options: PlainRowOptions): (given: unknown) => RowInput {
  const { columns, ownTexts, templated, carried, carryFields, onColumns } = options;
  if (columns === undefined && !templated && !carried) return readableRow;
  let fields: ReturnType<typeof fieldsOfTable> | undefined;
  let number = 0;
  return (given) => {
    number += 1;
    if (!isObject(given) || ArrayBuffer.isView(given)) return readableRow(given);
    let values: Readonly<Record<string, unknown>>;
    try {
      if (MADE.some((name) => given[name] !== undefined)) return readableRow(given);
      if (columns === undefined && !templated && !carryFields && misspelt(given)) return readableRow(given);
      values = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, plainValue(value)]));
    } catch (error) {
      const { rowCode: code, message } = orRowError(error);
      return { error: { code, message } };
    }
    if (columns !== undefined) {
      if (fields === undefined) {
        const header = Object.keys(values);
        fields = fieldsOfTable('the rows', header, columns, ownTexts);
        onColumns?.(takenColumns(fields, header, columns, ownTexts));
      }
      const { carry, ...row } = tableRow(values, fields, number, templated);
      return readableRow(carried && carry ? { ...row, carry } : row);
    }
    const others = Object.entries(values).filter(([name]) => !isRowField(name));
    const own = Object.entries(given).filter(([name]) => isRowField(name) && !(templated && name === 'prompt'));
    return readableRow({
      ...Object.fromEntries(own),
      ...(values['id'] !== undefined && { id: values['id'] }),
      ...(templated && { fields: values }),
      ...(carried && others.length > 0 && { carry: Object.fromEntries(others) }),
    });
  };
}

/** A database's value as lines of JSON hold it: large numbers and moments as text, bytes as base64. */
function plainValue(value: unknown, depth = 0): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Date) return Number.isNaN(value.valueOf()) ? null : value.toISOString();
  if (value instanceof Uint8Array) return base64(value);
  if (depth >= MOST_DEPTH) return value;
  if (Array.isArray(value)) return value.map((each) => plainValue(each, depth + 1));
  if (!isObject(value) || typeof value['toJSON'] === 'function') return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plainValue(each, depth + 1)]));
}
