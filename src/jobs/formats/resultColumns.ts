import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import type { AnyResult } from '../../Results.js';
import { embeddingAs } from '../../rows/embeddings.js';
import type { DeclaredProperty } from '../../schema/declaredProperties.js';
import type { ColumnKind } from './Table.js';
import { COLUMN_OF, PropertyCells, type PropertyCell } from './propertyColumns.js';
import type { WriteOptions } from './RowFormat.js';

/** A column of a table of results. */
export interface ResultColumn {
  readonly name: string;
  readonly type: ColumnKind;
  readonly value: (
    result: AnyResult,
  ) => PropertyCell | readonly number[] | Readonly<Record<string, number>> | undefined;
}

type KnownColumn = ResultColumn & {
  /** Only where results have it. */
  readonly part?: string;
  /** Only of that task. Default: of all. */
  readonly task?: WriteOptions['task'];
};

function vectorOf({ embedding, ...more }: AnyResult): readonly number[] | undefined {
  return embedding === undefined ? undefined : (embeddingAs({ embedding, ...more }, 'float') as readonly number[]);
}

const COLUMNS: readonly KnownColumn[] = [
  { name: 'id', part: 'id', type: 'text', value: ({ id }) => String(id) },
  { name: 'sample', part: 'sample', type: 'count', value: ({ sample }) => sample },
  {
    name: 'text',
    task: 'generate',
    type: 'text',
    value: ({ text, error }) => (error === undefined || text !== '' ? text : undefined),
  },
  {
    name: 'value',
    part: 'value',
    type: 'text',
    value: ({ value }) => (value === undefined ? undefined : JSON.stringify(value)),
  },
  { name: 'reasoning', part: 'reasoning', type: 'text', value: ({ reasoning }) => reasoning },
  {
    name: 'tool_calls',
    part: 'toolCalls',
    type: 'text',
    value: ({ toolCalls }) => toolCalls && JSON.stringify(toolCalls),
  },
  { name: 'chunk', part: 'chunk', type: 'count', value: ({ chunk }) => chunk },
  { name: 'chunk_start', part: 'chunk', type: 'count', value: ({ start }) => start },
  { name: 'chunk_end', part: 'chunk', type: 'count', value: ({ end }) => end },
  { name: 'finish_reason', task: 'generate', type: 'text', value: ({ finishReason }) => finishReason },
  { name: 'label', task: 'classify', type: 'text', value: ({ label }) => label },
  { name: 'probability', task: 'classify', type: 'number', value: ({ probability }) => probability },
  {
    name: 'probabilities',
    task: 'classify',
    type: 'map',
    value: ({ probabilities }) => probabilities,
  },
  { name: 'scores', task: 'score', type: 'text', value: ({ scores }) => scores && JSON.stringify(scores) },
  { name: 'scores', task: 'rerank', type: 'text', value: ({ scores }) => scores && JSON.stringify(scores) },
  {
    name: 'embedding',
    part: 'vector',
    task: 'embed',
    type: 'vector',
    value: vectorOf,
  },
  ...(['vector16', 'vector8', 'bytes'] as const).map((type): KnownColumn => ({
    name: 'embedding',
    part: type,
    task: 'embed',
    type,
    value: vectorOf,
  })),
  {
    name: 'embedding',
    part: 'base64',
    task: 'embed',
    type: 'text',
    value: ({ embedding, ...more }) => embedding && embeddingAs({ embedding, ...more }, 'base64'),
  },
  { name: 'embedding_scale', part: 'scale', task: 'embed', type: 'number', value: ({ scale }) => scale },
  { name: 'error_code', type: 'text', value: ({ error }) => error?.code },
  { name: 'error_message', type: 'text', value: ({ error }) => error?.message },
  { name: 'prompt_tokens', type: 'count', value: ({ usage }) => usage.promptTokens },
  { name: 'completion_tokens', type: 'count', value: ({ usage }) => usage.completionTokens },
  { name: 'truncated', part: 'truncated', type: 'count', value: ({ truncated }) => truncated },
  { name: 'attempts', part: 'attempts', type: 'count', value: ({ attempts }) => attempts },
  { name: 'parts', part: 'merged', type: 'count', value: ({ parts }) => parts?.count },
  { name: 'merge_levels', part: 'merged', type: 'count', value: ({ parts }) => parts?.levels },
  { name: 'model', part: 'model', type: 'text', value: ({ model }) => model },
  { name: 'confidence', part: 'confidence', type: 'number', value: ({ confidence }) => confidence },
  {
    name: 'least_confidence',
    part: 'leastConfidence',
    type: 'number',
    value: ({ leastConfidence }) => leastConfidence,
  },
  { name: 'logprobs', part: 'logprobs', type: 'text', value: ({ logprobs }) => logprobs && JSON.stringify(logprobs) },
  // Of tables of a database alone, which says itself which job it is.
  { name: 'job', part: 'key', type: 'text', value: () => undefined },
  { name: 'index', part: 'key', type: 'integer', value: ({ index }) => index },
];

/** The name of the column that holds answers as a whole. */
const WHOLE = 'value';

/** The text of an answer where calls of tools, or answers that no column holds, have none of their own. */
function textWithCalls({ text, toolCalls, answers }: AnyResult): string | undefined {
  if (answers) return JSON.stringify(answers);
  return toolCalls && JSON.stringify({ content: text === '' ? null : text, tool_calls: toolCalls });
}

/** Lists the names that result columns can be renamed from. */
export function resultColumnNames(properties: readonly DeclaredProperty[] | undefined): readonly string[] {
  const own = properties?.map(({ name }) => name) ?? [];
  return [...new Set([...own, ...COLUMNS.map(({ name }) => name).filter((name) => !(properties && name === WHOLE))])];
}

/**
 * The columns of results, beside those that are carried.
 * @param isText whether the table has no types, as CSV: an empty text is the same as no value, and lists are JSON
 * @throws UsageError for a name that stands twice
 */
export function resultColumns(
  carried: readonly string[],
  { resultColumns: names, parts, task: done = 'generate', properties, name: output }: WriteOptions,
  isText = false,
): readonly ChosenColumn[] {
  const own = new Set(properties?.map(({ name }) => name));
  const renamed = (name: string): string => (Object.hasOwn(names, name) ? names[name] : undefined) ?? name;
  /** A name that both a property and a result column have means the property. */
  const nameOf = (name: string): string => (own.has(name) ? name : renamed(name));
  // Rows of a table that carry their id need no other.
  const hasId = carried.includes(nameOf('id'));
  const chosen = COLUMNS.filter(
    ({ part, task = done }) =>
      task === done && (part === undefined || (parts.includes(part) && !(part === 'id' && hasId))),
  ).flatMap((column) => {
    const value = (result: AnyResult): ReturnType<ResultColumn['value']> =>
      (column.name === 'text' && !parts.includes('toolCalls') ? textWithCalls(result) : undefined) ??
      column.value(result);
    const known = { ...column, value, name: nameOf(column.name), was: column.name, ofSchema: false };
    if (properties === undefined || (column.name !== 'text' && column.name !== WHOLE)) return [known];
    return column.name === WHOLE ? [] : propertyColumns(properties, known, renamed, isText);
  });
  const counts = new Map<string, number>();
  for (const name of [...carried, ...chosen.map((column) => column.name)])
    counts.set(name, (counts.get(name) ?? 0) + 1);
  const twice = chosen.filter(({ name }) => (counts.get(name) ?? 0) > 1);
  if (twice.length === 0) return chosen;
  const taken = [...new Set(twice.map(({ name }) => name))];
  const ours = twice.find(({ ofSchema }) => ofSchema);
  const both = `found two columns ${taken.map((name) => found(name)).join(' and two ')}`;
  const other = ours === undefined ? 'NAME' : `${ours.was}_found`;
  const renames = twice
    .filter(({ was }, at) => twice.findIndex((each) => each.was === was) === at)
    .map(({ was }) => `${was}=${taken.length === 1 ? other : `${was}_found`}`)
    .join();
  const remedy =
    ours === undefined
      ? `expected each name once; \`resultColumns\` (${renames}) gives the results another`
      : `one of them for a property of the schema, expected each name once; \`resultColumns\` ${renames} gives the ${taken.length === 1 ? 'property another' : 'results others'}`;
  throw new UsageError(`${output}: ${both}, ${remedy}, and \`resultPrefix\` puts the same before all of them`);
}

/**
 * Names of result columns, where what is not named gets a prefix; not an `id`, which is the row's.
 * @param properties as above
 */
export function prefixedColumns(
  names: Readonly<Record<string, string>>,
  prefix: string | undefined,
  properties: readonly DeclaredProperty[] | undefined,
): Readonly<Record<string, string>> {
  if (prefix === undefined) return names;
  const own = resultColumnNames(properties).filter((name) => name !== 'id');
  return { ...Object.fromEntries(own.map((name) => [name, `${prefix}${name}`])), ...names };
}

export interface ChosenColumn extends ResultColumn {
  /** The column's name where nothing else is said. */
  readonly was: string;
  /** True where the column is a property of the answers' schema. */
  readonly ofSchema: boolean;
}

/** A column of each property, and of the text of what does not stand in them as a whole. */
function propertyColumns(
  properties: readonly DeclaredProperty[],
  text: ChosenColumn,
  renamed: (name: string) => string,
  isText: boolean,
): readonly ChosenColumn[] {
  const cells = new PropertyCells(properties, isText);
  return [
    ...properties.map(({ name, type }): ChosenColumn => ({
      name: renamed(name),
      was: name,
      ofSchema: true,
      type: COLUMN_OF[type],
      value: (result) => cells.of(result).cells.get(name),
    })),
    { ...text, value: (result) => (cells.of(result).all ? undefined : text.value(result)) },
  ];
}
