import { COUNTED_BYTES } from './duckDbRows.js';

/** Bytes of DuckDB's process for each that it counts: for the program, and the values of the rows at hand. */
export const OF_COUNTED = 2;
/**
 * Bytes that the process of a query of DuckDB may have under a cap. The system holds it to them (`ulimit -d`, Linux),
 * as DuckDB hands over some two thousand rows at a time, whatever they take.
 */
export const DUCKDB_BYTES = OF_COUNTED * COUNTED_BYTES;

const NAME = '[A-Za-z_\\u0080-\\uffff]';
/**
 * Pieces of a query as DuckDB takes them: comments, of which those in stars may hold others; texts, which may have
 * escapes or stand between two tags in dollars; names, with quotes or without; ends of statements; all else. What is
 * not closed goes to the end.
 */
const PIECES = [
  '--[^\\n\\r]*',
  '\\/\\*',
  "[eE]'[^'\\\\]*(?:(?:\\\\[^]|'')[^'\\\\]*)*(?:'|$)",
  "'[^']*(?:''[^']*)*(?:'|$)",
  '"[^"]*(?:""[^"]*)*(?:"|$)',
  `\\$((?:${NAME}(?:${NAME}|\\d)*)?)\\$[^]*?(?:\\$\\1\\$|$)`,
  `${NAME}(?:${NAME}|[\\d$])*`,
  ';',
  `[^A-Za-z_\\u0080-\\uffff;'"$/-]+`,
  '[^]',
].join('|');
const MARKS = /\/\*|\*\//g;
const LIMIT =
  /^\s*(?:set|pragma)\s+(?:(?:global|session|local)\s+)?"?(?:memory_limit|max_memory)"?\s*(?:=|\bto\b)\s*'?\s*([^';\s]*(?:\s*[kmgt]i?b)?)/i;
const SIZE = /^(\d+(?:\.\d+)?)\s*([kmgt])(i?)b$/i;

/** The statements of a query, a blank in the place of each comment. */
export function statementsOf(sql: string): readonly string[] {
  const statements: string[][] = [[]];
  const pieces = new RegExp(PIECES, 'y');
  for (let match = pieces.exec(sql); match; match = pieces.exec(sql)) {
    const [piece] = match;
    if (piece === '/*') pieces.lastIndex = endOfComment(sql, pieces.lastIndex);
    if (piece === ';') statements.push([]);
    else statements.at(-1)?.push(piece === '/*' || piece.startsWith('--') ? ' ' : piece);
  }
  return statements.map((texts) => texts.join(''));
}

function endOfComment(sql: string, begun: number): number {
  let depth = 1;
  MARKS.lastIndex = begun;
  for (let match = MARKS.exec(sql); match; match = MARKS.exec(sql)) {
    depth += match[0] === '/*' ? 1 : -1;
    if (depth === 0) return MARKS.lastIndex;
  }
  return sql.length;
}

/**
 * The bytes that the process may have: as the statements before a query say that DuckDB may; undefined where they say
 * it in other ways than as a size.
 * @param otherwise where they say nothing
 */
export function limitOf(sql: string, otherwise: number): number | undefined {
  const said = statementsOf(sql)
    .flatMap((statement) => LIMIT.exec(statement)?.[1] ?? [])
    .at(-1);
  if (said === undefined) return otherwise;
  const [, count, unit = '', binary] = SIZE.exec(said) ?? [];
  if (count === undefined) return undefined;
  const counted = Number(count) * (binary === '' ? 1000 : 1024) ** (1 + 'kmgt'.indexOf(unit.toLowerCase()));
  return Math.max(DUCKDB_BYTES, OF_COUNTED * counted);
}
