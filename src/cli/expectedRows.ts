import { stat } from 'node:fs/promises';
import { commonTokens, prepareRow, readRows, type ExpectedRows, type GenerateOptions, type ReadRowsOptions, type RowInput, type Tokenizer } from './library.js';

/** Rows of the input that are looked at. */
const SAMPLE = 256;
/** Tokens of each that are compared: how prompts begin. */
const COMPARED = 16_384;
/** Of them, this share is no longer than what counts as long. */
const LONG = 0.95;
const NO_LIMITS = { contextTokens: Infinity, vocabularySize: Infinity };

/**
 * What the first rows of files say of all of them: prompts as they are, answers as long as they may become. That is what the job is planned for. A file that ends among them has so
 * many rows, and bad ones are no work.
 * @param format how the input is read
 * @param rows how many rows there are to do, if that is known
 * @returns undefined for what can be read only once: a pipe, a device
 */
export async function expectedRows(inputs: readonly string[], format: ReadRowsOptions, options: GenerateOptions, tokenizer: Tokenizer, rows = Infinity): Promise<ExpectedRows | undefined> {
  for (const input of inputs) if (!(await stat(input)).isFile()) return undefined;
  if (inputs.length === 0) return undefined;
  const lengths: { readonly prompt: number; readonly answer: number }[] = [];
  const beginnings: (readonly number[])[] = [];
  for await (const row of rowsOf(inputs, format)) {
    const prepared = preparedRow(row, options, tokenizer);
    if (!prepared) continue;
    const { tokens, maxNewTokens } = prepared;
    beginnings.push(tokens.slice(0, COMPARED));
    if (lengths.push({ prompt: tokens.length, answer: maxNewTokens }) >= SAMPLE) break;
  }
  if (lengths.length === 0) return { promptTokens: 0, newTokens: 0, rows: 0 };
  const toDo = Math.min(rows, lengths.length < SAMPLE ? lengths.length : Infinity);
  const mean = (of: 'prompt' | 'answer'): number => lengths.reduce((sum, each) => sum + each[of], 0) / lengths.length;
  const whole = lengths.map(({ prompt, answer }) => prompt + answer).sort((a, b) => a - b);
  const longest = whole[Math.ceil(whole.length * LONG) - 1];
  // One of them computes what the others need not.
  const shared = lengths.length < 2 ? 0 : commonTokens(beginnings) / (lengths.length - 1);
  return { promptTokens: mean('prompt'), newTokens: mean('answer'), ...(longest !== undefined && { longRowTokens: longest }), ...(shared > 0 && { sharedPrefixTokens: shared }), ...(toDo < Infinity && { rows: toDo }) };
}

async function* rowsOf(inputs: readonly string[], format: ReadRowsOptions): AsyncGenerator<RowInput, void, undefined> {
  for (const input of inputs) yield* readRows(input, format);
}

function preparedRow(row: RowInput, options: GenerateOptions, tokenizer: Tokenizer): Pick<ReturnType<typeof prepareRow>, 'tokens' | 'maxNewTokens'> | undefined {
  if ('error' in row) return undefined;
  try {
    return prepareRow(row, options, tokenizer, NO_LIMITS);
  } catch {
    // A bad row; the run will say so in its result.
    return undefined;
  }
}
