import { UsageError } from '../errors/UsageError.js';
import type { AnyResult } from '../Results.js';
import type { EncodeResultsOptions } from './encodeResults.js';
import type { FinishedRow, WriteOptions } from './formats/RowFormat.js';
import type { JobTaskName } from './JobTaskName.js';
import { writeOptions } from './writeOptions.js';

/** Errors that do not say what was done, and are held until a result does. */
const MOST_HELD = 65_536;

/** How results are written that no job stands behind: the columns of a table are those that the caller asks for, and what the first rows carry. */
export function resultsAlone(options: Omit<EncodeResultsOptions, 'format'>, task: JobTaskName): WriteOptions {
  const { responseFormat, schema, encoding, samples = false, values = false, reasoning = false, logprobs = false, name = 'output' } = options;
  const { parts, ...written } = writeOptions(task, { ...(responseFormat && { responseFormat }), ...(schema && { schema }), ...(encoding && { encoding }) }, options);
  const asked = Object.entries({ id: true, sample: samples, value: values, reasoning, logprobs }).flatMap(([part, there]) => (there ? [part] : []));
  return { ...written, parts: [...new Set([...asked, ...parts])].filter((part) => part !== 'value' || values), table: () => undefined, name };
}

/** Results, and what was done: what the caller says, or the first of them that tells. */
export async function toldTask(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>, said: JobTaskName | undefined,
): Promise<{ readonly task: JobTaskName; readonly rows: AsyncGenerator<FinishedRow, void, undefined> }> {
  const iterator = (async function* (): AsyncGenerator<AnyResult, void, undefined> {
    for await (const result of results) yield result;
  })();
  const held: AnyResult[] = [];
  let told = said;
  while (told === undefined && held.length < MOST_HELD) {
    const step = await iterator.next();
    if (step.done === true) break;
    held.push(step.value);
    told = taskOf(step.value);
  }
  const task = told ?? 'generate';
  return { task, rows: finishedRows(held, iterator, task) };
}

/** @throws UsageError for a result of another task, for which there are no columns */
async function* finishedRows(held: readonly AnyResult[], others: AsyncGenerator<AnyResult, void, undefined>, task: JobTaskName): AsyncGenerator<FinishedRow, void, undefined> {
  const checked = (result: AnyResult): FinishedRow => {
    const own = taskOf(result) ?? task;
    if (own !== task) throw new UsageError(`task: found a result of ${own} among those of ${task}, expected all of one task`);
    return { result, carry: result.row };
  };
  try {
    for (const result of held) yield checked(result);
    for await (const result of others) yield checked(result);
  } finally {
    await others.return();
  }
}

/** Undefined for an error that does not say. */
function taskOf({ finishReason, label, scores, embedding }: AnyResult): JobTaskName | undefined {
  if (finishReason !== undefined) return 'generate';
  if (label !== undefined) return 'classify';
  if (scores !== undefined) return 'score';
  return embedding === undefined ? undefined : 'embed';
}
