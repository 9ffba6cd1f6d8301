import { UsageError } from '../errors/UsageError.js';
import type { AnyResult } from '../Results.js';
import type { EncodeResultsOptions } from './encodeResults.js';
import type { FinishedRow, WriteOptions } from './formats/RowFormat.js';
import type { JobTaskName } from './JobTaskName.js';
import { writeOptions } from './writeOptions.js';

/** How results are written that no job stands behind: the columns of a table are those that the caller asks for, and what the first rows carry. */
export function resultsAlone(options: Omit<EncodeResultsOptions, 'format'>): WriteOptions {
  const { task = 'generate', responseFormat, schema, encoding, samples = false, values = false, reasoning = false, logprobs = false, name = 'output' } = options;
  const { parts, ...written } = writeOptions(task, { ...(responseFormat && { responseFormat }), ...(schema && { schema }), ...(encoding && { encoding }) }, options);
  const asked = Object.entries({ id: true, sample: samples, value: values, reasoning, logprobs }).flatMap(([part, there]) => (there ? [part] : []));
  return { ...written, parts: [...new Set([...asked, ...parts])].filter((part) => part !== 'value' || values), table: () => undefined, name };
}

/** @throws UsageError for a result of another task, for which there are no columns */
export async function* finishedRows(results: AsyncIterable<AnyResult> | Iterable<AnyResult>, task: JobTaskName = 'generate'): AsyncGenerator<FinishedRow, void, undefined> {
  for await (const result of results) {
    const own = result.error === undefined ? taskOf(result) : undefined;
    if (own !== undefined && own !== task) throw new UsageError(`task: found ${task}, and a result of ${own}, expected task: '${own}'`);
    yield { result, carry: result.row };
  }
}

function taskOf({ text, label, scores, embedding }: AnyResult): JobTaskName | undefined {
  if (label !== undefined) return 'classify';
  if (scores !== undefined) return 'score';
  if (embedding !== undefined) return 'embed';
  return text === undefined ? undefined : 'generate';
}
