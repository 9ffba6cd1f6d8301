import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import type { AnyResult } from '../../Results.js';
import type { WriteOptions } from './RowFormat.js';

/** A column of a table of results. */
export interface ResultColumn {
  readonly name: string;
  readonly type: 'text' | 'count' | 'number';
  readonly value: (result: AnyResult) => string | number | undefined;
}

const COLUMNS: readonly (ResultColumn & { /** Only where results have it. */ readonly part?: string; /** Only of that task. Default: of all. */ readonly task?: WriteOptions['task'] })[] = [
  { name: 'id', part: 'id', type: 'text', value: ({ id }) => String(id) },
  { name: 'sample', part: 'sample', type: 'count', value: ({ sample }) => sample },
  { name: 'text', task: 'generate', type: 'text', value: ({ text, error }) => (error === undefined || text !== '' ? text : undefined) },
  { name: 'value', part: 'value', type: 'text', value: ({ value }) => (value === undefined ? undefined : JSON.stringify(value)) },
  { name: 'reasoning', part: 'reasoning', type: 'text', value: ({ reasoning }) => reasoning },
  { name: 'finish_reason', task: 'generate', type: 'text', value: ({ finishReason }) => finishReason },
  { name: 'label', task: 'classify', type: 'text', value: ({ label }) => label },
  { name: 'probability', task: 'classify', type: 'number', value: ({ probability }) => probability },
  { name: 'probabilities', task: 'classify', type: 'text', value: ({ probabilities }) => probabilities && JSON.stringify(probabilities) },
  { name: 'scores', task: 'score', type: 'text', value: ({ scores }) => scores && JSON.stringify(scores) },
  { name: 'embedding', task: 'embed', type: 'text', value: ({ embedding }) => (typeof embedding === 'object' ? JSON.stringify(embedding) : embedding) },
  { name: 'error_code', type: 'text', value: ({ error }) => error?.code },
  { name: 'error_message', type: 'text', value: ({ error }) => error?.message },
  { name: 'prompt_tokens', type: 'count', value: ({ usage }) => usage.promptTokens },
  { name: 'completion_tokens', type: 'count', value: ({ usage }) => usage.completionTokens },
  { name: 'logprobs', part: 'logprobs', type: 'text', value: ({ logprobs }) => logprobs && JSON.stringify(logprobs) },
];

/** What a result column can be renamed from. */
export const RESULT_COLUMNS: readonly string[] = COLUMNS.map(({ name }) => name);

/**
 * The columns of results, beside those that are carried.
 * @throws UsageError for a name that stands twice
 */
export function resultColumns(carried: readonly string[], { resultColumns: names, parts, task: done = 'generate', name: output }: WriteOptions): readonly ResultColumn[] {
  // Rows of a table that carry their id need no other.
  const hasId = carried.includes(names['id'] ?? 'id');
  const chosen = COLUMNS.filter(({ part, task = done }) => task === done && (part === undefined || (parts.includes(part) && !(part === 'id' && hasId))))
    .map((column) => ({ ...column, name: names[column.name] ?? column.name, was: column.name }));
  const all = [...carried, ...chosen.map(({ name }) => name)];
  const twice = chosen.find(({ name }) => all.indexOf(name) !== all.lastIndexOf(name));
  if (twice !== undefined) {
    throw new UsageError(`${output}: found two columns ${found(twice.name)}, expected each name once; \`resultColumns\` (${twice.was}=NAME) gives the results another`);
  }
  return chosen;
}
