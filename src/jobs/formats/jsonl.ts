import { isObject, membersOf } from '../../arguments/isObject.js';
import { losesChoices, spelledInParts } from '../../arguments/jsonNumbers.js';
import { inTurns } from '../../collections/inTurns.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { hasTooManyValues } from '../../rows/checkValues.js';
import { resultLine } from './formatResult.js';
import { isOwnField, lostFormat, mappedFields, otherFields, parseRow } from './parseRow.js';
import { jsonLine, rowMade, type JsonLine } from './jsonLine.js';
import type { ReadJson } from './longJson.js';
import { countLines, filledLines } from './readLines.js';
import type { ReadOptions, RowFormat } from './RowFormat.js';

/** One JSON object a line. */
export const jsonl: RowFormat = {
  name: 'jsonl',
  extensions: ['jsonl', 'ndjson', 'json'],
  appendable: true,
  async *rows(source, { columns, maxLineBytes, onColumns, ...options }) {
    if (options.templated === true) onColumns?.({ fields: { id: 'id', ...columns }, likeParameters: [] });
    for await (const line of filledLines(source, maxLineBytes)) {
      // What is there at once is not waited for.
      const text = jsonLine(line, maxLineBytes, line.number === 1 ? likelyFormat : undefined);
      const value = text instanceof Promise ? await text : text;
      const spelled = value.bad === undefined ? withSpelling(value) : undefined;
      const row =
        value.bad ?? rowOf(value, spelled instanceof Promise ? await spelled : spelled, line.number, options, columns);
      const made = rowMade(line);
      if (made) await made;
      yield row;
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  async *encode(results) {
    for await (const { result } of results) {
      const line = resultLine(result);
      yield (line instanceof Promise ? await line : line).line;
    }
  },
};

/**
 * Says what a file of JSON is whose first line shows that it is none of lines, with the remedy; undefined for others.
 */
export function otherJson(line: string): string | undefined {
  const [, list, object] = /^\ufeff?\s*(?:(\[)\s*(?:$|[[{"\]])|(\{)\s*$)/.exec(line) ?? [];
  if (object !== undefined)
    return 'a JSON object over several lines, expected one JSON object a line: jq -c . FILE makes lines of it';
  return list !== undefined && isListOfRows(line)
    ? "a JSON array, expected one JSON object a line: jq -c '.[]' FILE makes lines of it"
    : undefined;
}

/** Tells whether an array that a first line begins with is one of rows, or goes on in the next line. */
function isListOfRows(line: string): boolean {
  try {
    const value: unknown = JSON.parse(line.replace(/^\ufeff/, ''));
    return Array.isArray(value) && (value.length === 0 || value.some((each) => isObject(each)));
  } catch {
    return /^\ufeff?\s*\[\s*($|[[{"])/.test(line);
  }
}

/** Units of a line that tell what it is. */
const TELLING_UNITS = 2 ** 16;

/** Says what a file whose first line is no JSON probably is. */
function likelyFormat(whole: string): string {
  const line = whole.slice(0, TELLING_UNITS);
  const json = otherJson(line);
  if (json !== undefined) return `; it may begin ${json}`;
  if (/^\s*[[{"]/.test(line)) return '';
  const format = line.includes('\t') ? 'tsv' : /[,;|]/.test(line) && !/[.?!]/.test(line) ? 'csv' : 'text';
  return `; it may be ${format} rather than jsonl: say so (\`inputFormat\`)`;
}

function rowOf(
  { read, written }: ReadJson,
  spelled: unknown,
  number: number,
  { carryFields, templated = false, ownTexts }: Pick<ReadOptions, 'carryFields' | 'templated' | 'ownTexts'>,
  columns: Readonly<Record<string, string>> | undefined,
): RowInput {
  const mapped = (value: unknown): unknown =>
    columns === undefined ? value : mappedFields(value, columns, templated, ownTexts);
  let value = read !== written && (carryFields || templated) ? withExact(read, written, columns, templated) : read;
  if (spelled !== read) value = spelledFields(value, spelled, columns);
  let format: string | undefined;
  if (read !== written) {
    const [is, was] = [membersOf(mapped(read)), membersOf(mapped(written))];
    format = templated && columns === undefined ? undefined : FORMATS.find((name) => losesChoices(is[name], was[name]));
  }
  const fields = mapped(value);
  const row =
    columns !== undefined && isObject(value) && isObject(fields)
      ? parseRow(
          fields,
          number,
          carryFields && otherFields(value, columns, templated),
          // As in a table, what a field of the line is called means that field.
          templated && { ...fields, ...value },
        )
      : parseRow(value, number, carryFields, templated, ownTexts);
  return format === undefined || 'error' in row ? row : lostFormat(row, format);
}

/** Fields that go to the chat template, where numbers are as they are written. */
const SPELLED = ['messages', 'tools', 'templateArgs'] as const;

/** The value of a line with the spelling of its numbers, if it may have such fields. */
function withSpelling({ read, json }: Exclude<JsonLine, { readonly bad: unknown }>): unknown {
  // Of what is refused for its length nothing more is made.
  return SPELLED.some((name) => json.includes(`"${name}"`)) &&
    isObject(read) &&
    !hasTooManyValues(read, ROW_LIMITS.conversationValues)
    ? inTurns(spelledInParts(json, read))
    : read;
}

function spelledFields(value: unknown, spelled: unknown, columns: ReadOptions['columns']): unknown {
  if (!isObject(value) || !isObject(spelled)) return value;
  const names = SPELLED.map((name) => columns?.[name] ?? name).filter((name) => Object.hasOwn(value, name));
  return { ...value, ...Object.fromEntries(names.map((name) => [name, spelled[name]])) };
}

const FORMATS = ['responseFormat', 'response_format', 'tools'] as const;

/** The fields that are not ours with numbers that would change as texts, as those of Parquet are. */
function withExact(value: unknown, exact: unknown, columns: ReadOptions['columns'], data: boolean): unknown {
  if (!isObject(value) || !isObject(exact)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, as]) => [name, isOwnField(name, columns, data) ? as : exact[name]]),
  );
}
