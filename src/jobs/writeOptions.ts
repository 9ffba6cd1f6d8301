import type { EmbedOptions } from '../Results.js';
import { answerProperties, type FormatOptions } from './answerFormat.js';
import type { WriteOptions } from './formats/RowFormat.js';

/** What results may have beside the usual, and whether these do. */
export type ResultParts = Readonly<Record<'id' | 'sample' | 'value' | 'reasoning' | 'logprobs', boolean>>;

/**
 * How results are written.
 * @param answers what they were held to, and how embeddings are encoded
 * @throws UsageError, ResponseFormatError for what answers are held to
 */
export function writeOptions(
  there: ResultParts,
  answers: FormatOptions & Pick<EmbedOptions, 'encoding'>,
  {
    resultColumns = {},
    delimiter,
    ...options
  }: Omit<WriteOptions, 'parts' | 'properties' | 'resultColumns'> & Partial<Pick<WriteOptions, 'resultColumns'>>,
): WriteOptions {
  const properties = answerProperties(answers);
  const parts = [
    ...Object.entries(there).flatMap(([part, has]) => (has ? [part] : [])),
    answers.encoding === 'base64' ? 'base64' : 'vector',
  ];
  return {
    ...options,
    resultColumns,
    parts,
    ...(properties && { properties }),
    ...(delimiter !== undefined && { delimiter }),
  };
}
