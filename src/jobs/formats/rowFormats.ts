import { found } from '../../arguments/found.js';
import { membersOf } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';
import { csv, tsv } from './csv.js';
import { jsonl } from './jsonl.js';
import { openaiBatch } from './openaiBatch.js';
import { parquet } from './parquet/parquet.js';
import type { RowFormat } from './RowFormat.js';
import { text } from './text.js';

/** The formats that there are, by their names: a new one is a file of its own and a line here. */
const FORMATS = { jsonl, text, csv, tsv, parquet, 'openai-batch': openaiBatch } satisfies Record<string, RowFormat>;

export type FormatName = keyof typeof FORMATS;

export const ROW_FORMATS: readonly RowFormat[] = Object.values(FORMATS);

/**
 * The values that `--input-format` and `--output-format` take: `auto` goes by a file's name, then by its first bytes.
 */
export const FORMAT_NAMES: readonly ('auto' | FormatName)[] = ['auto', ...(Object.keys(FORMATS) as FormatName[])];

export function isFormatName(value: unknown): value is FormatName {
  return typeof value === 'string' && Object.hasOwn(FORMATS, value);
}

/** A format by name, or one of the caller's own. */
export type FormatChoice = (typeof FORMAT_NAMES)[number] | RowFormat;

/** The format that is chosen; undefined for `auto`. */
export function chosenFormat(choice: FormatChoice = 'auto'): RowFormat | undefined {
  if (typeof choice !== 'string') return choice;
  return choice === 'auto' ? undefined : FORMATS[choice];
}

/** How files of other formats, and what is compressed otherwise, are called at the end. */
const OTHERS: ReadonlySet<string> = new Set('arrow avro bz2 feather ods orc xls xlsx xz zip'.split(' '));

/** How files of these formats are called, in words: `.jsonl, .csv or .parquet`. */
export function endingsOf(formats: readonly RowFormat[]): string {
  const endings = formats.flatMap(({ extensions: [ending] }) => (ending === undefined ? [] : [`.${ending}`]));
  return `${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}`;
}

/**
 * The format of files that are called so.
 * @param name without what says how the file is compressed
 * @param option whose value it is, for messages
 * @throws UsageError for a name that is another format's, which would be taken for lines of JSON
 */
export function formatOfName(name: string, option: 'input' | 'output' | 'errors'): RowFormat | undefined {
  const ending = /\.([^./\\]+)$/.exec(name)?.[1]?.toLowerCase();
  if (ending === undefined) return undefined;
  if (OTHERS.has(ending)) {
    const choice = option === 'errors' ? '' : `, or \`${option}Format\`, which says what the file is whatever its name`;
    const fitting = ROW_FORMATS.filter(({ byPlace }) => option !== 'errors' || byPlace !== true);
    throw new UsageError(
      `${option}: found ${name}, a name of another format, expected one with ${endingsOf(fitting)}${choice}`,
    );
  }
  return ROW_FORMATS.find(({ extensions }) => extensions.includes(ending));
}

/**
 * The format of a file that begins so, which its name does not tell.
 * @param named what its name says that it is, of which others may be a special case
 */
export function formatOfStart(start: string, named: RowFormat | undefined): RowFormat | undefined {
  return ROW_FORMATS.find(
    (format) => format.begins?.(start) === true && (named === undefined || format.extensions.length === 0),
  );
}

/** @throws UsageError unless it is the name of a format, or a format */
export function checkFormat(name: string, value: unknown): void {
  const names: readonly unknown[] = FORMAT_NAMES;
  if (names.includes(value)) return;
  const { rows, encode, name: own } = membersOf(value);
  if (typeof rows === 'function' && typeof encode === 'function' && typeof own === 'string') return;
  throw new UsageError(`${name}: found ${found(value)}, expected one of ${FORMAT_NAMES.join(', ')}, or a RowFormat`);
}
