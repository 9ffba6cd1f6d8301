import type { EmbedOptions } from '../Results.js';
import type { GenerateOptions } from '../Row.js';
import { answerProperties, runFormat, type FormatOptions } from './answerFormat.js';
import type { WriteOptions } from './formats/RowFormat.js';
import type { JobTaskName } from './JobTaskName.js';

/** What of a task's options says which columns its results have. */
export type ResultOptions = FormatOptions & Pick<GenerateOptions, 'samples' | 'reasoning' | 'logprobs'> & Pick<EmbedOptions, 'encoding'>;

/** How results of a task are written, as far as it and the caller's names say. @throws UsageError, ResponseFormatError for what answers are held to */
export function writeOptions(
  task: JobTaskName, { samples, reasoning, logprobs, encoding, ...format }: ResultOptions, { resultColumns = {}, delimiter }: Partial<Pick<WriteOptions, 'resultColumns' | 'delimiter'>>,
): Pick<WriteOptions, 'task' | 'resultColumns' | 'parts' | 'properties' | 'delimiter'> {
  const properties = answerProperties(format);
  const parts = Object.entries({
    sample: samples !== undefined, value: runFormat(format)?.type === 'json_schema', reasoning: reasoning === 'separate', logprobs: logprobs !== undefined, vector: encoding !== 'base64', base64: encoding === 'base64',
  }).flatMap(([part, there]) => (there ? [part] : []));
  return { task, resultColumns, parts, ...(properties && { properties }), ...(delimiter !== undefined && { delimiter }) };
}
