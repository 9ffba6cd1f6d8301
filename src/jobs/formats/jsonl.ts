import { isUtf8 } from 'node:buffer';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { losesChoices, readWithDigits, readWithSpelling } from '../../arguments/jsonNumbers.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { formatResult } from './formatResult.js';
import { isOwnField, lineWithoutRow, lostFormat, mappedFields, otherFields, parseRow } from './parseRow.js';
import { countLines, filledLines, noText, tooLong } from './readLines.js';
import type { ReadOptions, RowFormat } from './RowFormat.js';

/** One JSON object a line. */
export const jsonl: RowFormat = {
  name: 'jsonl',
  extensions: ['jsonl', 'ndjson', 'json'],
  appendable: true,
  async *rows(source, { columns, maxLineBytes, ...options }) {
    for await (const { number, bytes } of filledLines(source, maxLineBytes)) {
      if (bytes === undefined) yield tooLong(number, maxLineBytes);
      else if (!isUtf8(bytes)) yield noText(number, 'invalid-json');
      else yield parseLine(bytes.toString('utf8'), number, options, columns);
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  async *encode(results) {
    for await (const { result } of results) yield formatResult(result).line;
  },
};

/** What a file probably is whose first line is no JSON. */
function likelyFormat(line: string): string {
  if (/^\s*[[{"]/.test(line)) return '';
  const format = line.includes('\t') ? 'tsv' : /^[^.?!]*[,;|][^.?!]*$/.test(line) ? 'csv' : 'text';
  return `; it may be ${format} rather than jsonl: say so (\`inputFormat\`)`;
}

function parseLine(
  line: string,
  number: number,
  { carryFields, templated }: Pick<ReadOptions, 'carryFields' | 'templated'>,
  columns: Readonly<Record<string, string>> | undefined,
): RowInput {
  const mapped = (value: unknown): unknown => (columns === undefined ? value : mappedFields(value, columns));
  let value: unknown;
  let format: string | undefined;
  try {
    const [read, written] = readWithDigits(line);
    value = read !== written && (carryFields || templated === true) ? withExact(read, written, columns) : read;
    if (SPELLED.some((name) => line.includes(`"${name}"`)))
      value = withSpelling(value, readWithSpelling(line, read), read, columns);
    if (read !== written) {
      const [is, was] = [membersOf(mapped(read)), membersOf(mapped(written))];
      format = FORMATS.find((name) => losesChoices(is[name], was[name]));
    }
  } catch (error) {
    // V8's message quotes a piece of the line, so it stays short; a stack overflow on deep nesting ends here too.
    return lineWithoutRow(
      number,
      'invalid-json',
      `line ${number}: ${error instanceof Error ? error.message : String(error)}${number === 1 ? likelyFormat(line) : ''}`,
    );
  }
  const fields = mapped(value);
  const row =
    columns !== undefined && isObject(value) && isObject(fields)
      ? parseRow(
          fields,
          number,
          carryFields && otherFields(value, columns),
          // As in a table, what a field of the line is called means that field.
          templated === true && { ...fields, ...value },
        )
      : parseRow(value, number, carryFields, templated);
  return format === undefined || 'error' in row ? row : lostFormat(row, format);
}

/** Fields that go to the chat template, where numbers are as they are written. */
const SPELLED = ['messages', 'tools', 'templateArgs'] as const;

function withSpelling(value: unknown, spelled: unknown, read: unknown, columns: ReadOptions['columns']): unknown {
  if (spelled === read || !isObject(value) || !isObject(spelled)) return value;
  const names = SPELLED.map((name) => columns?.[name] ?? name).filter((name) => Object.hasOwn(value, name));
  return { ...value, ...Object.fromEntries(names.map((name) => [name, spelled[name]])) };
}

const FORMATS = ['responseFormat', 'response_format'] as const;

/** The fields that are not ours with numbers that would change as texts, as those of Parquet are. */
function withExact(value: unknown, exact: unknown, columns: ReadOptions['columns']): unknown {
  if (!isObject(value) || !isObject(exact)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, as]) => [name, isOwnField(name, columns) ? as : exact[name]]),
  );
}
