import { prepareRow, readRows, type GenerateOptions, type RowInput, type Tokenizer } from './library.js';

/** Rows of the input that are looked at. */
const SAMPLE = 256;
/** Of them, this share is no longer than what counts as usual. */
const USUAL = 0.95;
const NO_LIMITS = { contextTokens: Infinity, vocabularySize: Infinity };

/**
 * How long the first rows of a file may become, prompt and answer: what memory is planned for.
 * @returns undefined where no row can be used
 */
export async function usualRowTokens(input: string, format: 'jsonl' | 'text', options: GenerateOptions, tokenizer: Tokenizer): Promise<number | undefined> {
  const lengths: number[] = [];
  for await (const row of readRows(input, { format })) {
    const length = lengthOf(row, options, tokenizer);
    if (length !== undefined && lengths.push(length) >= SAMPLE) break;
  }
  lengths.sort((a, b) => a - b);
  return lengths[Math.ceil(lengths.length * USUAL) - 1];
}

function lengthOf(row: RowInput, options: GenerateOptions, tokenizer: Tokenizer): number | undefined {
  if ('error' in row) return undefined;
  try {
    const { tokens, maxNewTokens } = prepareRow(row, options, tokenizer, NO_LIMITS);
    return tokens.length + maxNewTokens;
  } catch {
    // A bad row; the run will say so in its result.
    return undefined;
  }
}
