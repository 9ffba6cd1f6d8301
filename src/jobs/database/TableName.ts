import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';

/** A table, by its schema where that is said. */
export interface TableName {
  readonly schema: string | undefined;
  readonly table: string;
}

const EXPECTED = 'TABLE or SCHEMA.TABLE, where a name with a dot stands in double quotes';
/** A name as it stands, or in double quotes, which stand twice within. */
const PART = /(?:"((?:[^"]|"")+)"|([^".]+))(?:\.|$)/y;

/**
 * A table as people write it. Names are taken as they stand, capitals too, and go into statements in quotes alone.
 * @throws UsageError
 */
export function parseTableName(text: string): TableName {
  const parts: string[] = [];
  PART.lastIndex = 0;
  for (let end = 0; end < text.length; end = PART.lastIndex) {
    const [, quoted, plain] = PART.exec(text) ?? [];
    const part = quoted?.replaceAll('""', '"') ?? plain;
    if (part === undefined || part.includes('\0')) throw wrong(text);
    parts.push(part);
  }
  const [first, second] = parts;
  if (first === undefined || parts.length > 2 || /(^|[^"])\.$/.test(text)) throw wrong(text);
  return second === undefined ? { schema: undefined, table: first } : { schema: first, table: second };
}

function wrong(text: string): UsageError {
  return new UsageError(`output: found ${found(text)} as a table, expected ${EXPECTED}`);
}

/** A name for a statement, whatever is in it: all databases that there are agree on that. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quotedTable({ schema, table }: TableName): string {
  return schema === undefined ? quoted(table) : `${quoted(schema)}.${quoted(table)}`;
}

/** @throws UsageError for what no database takes as a name */
export function checkColumnName(name: string): void {
  if (name === '' || name.includes('\0'))
    throw new UsageError(`output: found ${found(name)} as the name of a column, expected one without a zero character`);
}
