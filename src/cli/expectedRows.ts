import { stat } from 'node:fs/promises';
import {
  commonTokens,
  prepareRow,
  readRows,
  type ExpectedRows,
  type GenerateOptions,
  type ReadRowsOptions,
  type RowInput,
  type Tokenizer,
} from './library.js';

/** Rows of the input that are looked at. */
const SAMPLE = 256;
/** Tokens of each that are compared: how prompts begin. */
const COMPARED = 16_384;
/** Of them, this share is no longer than what counts as long. */
const LONG = 0.95;
const NO_LIMITS = { contextTokens: Infinity, vocabularySize: Infinity };

/** What a row asks for. */
interface Asked {
  readonly prompt: number;
  readonly answer: number;
  /** Answers that are computed: those of a row that leaves nothing to chance are one. */
  readonly answers: number;
}

/**
 * What the first rows of files say of all of them: prompts as they are, answers as long as they may become. That is
 * what the job is planned for. A file that ends among them has so many rows, and bad ones are no work. Of a row with
 * several samples each is one, which shares the prompt with the others.
 * @param format how the input is read
 * @param rows how many results there are to do, if that is known
 * @returns undefined for what can be read only once: a pipe, a device
 */
export async function expectedRows(
  inputs: readonly string[],
  format: ReadRowsOptions,
  options: GenerateOptions,
  tokenizer: Tokenizer,
  rows = Infinity,
): Promise<ExpectedRows | undefined> {
  for (const input of inputs) if (!(await stat(input)).isFile()) return undefined;
  if (inputs.length === 0) return undefined;
  const asked: Asked[] = [];
  const beginnings: (readonly number[])[] = [];
  for await (const row of rowsOf(inputs, format)) {
    const prepared = preparedRow(row, options, tokenizer);
    if (!prepared) continue;
    const { tokens, maxNewTokens, temperature, samples } = prepared;
    beginnings.push(tokens.slice(0, COMPARED));
    if (
      asked.push({
        prompt: tokens.length,
        answer: maxNewTokens,
        answers: temperature > 0 ? (samples?.length ?? 1) : 1,
      }) >= SAMPLE
    )
      break;
  }
  if (asked.length === 0) return { promptTokens: 0, newTokens: 0, rows: 0 };
  const total = (of: (each: Asked) => number): number => asked.reduce((sum, each) => sum + each.answers * of(each), 0);
  const answers = total(() => 1);
  const toDo = Math.min(rows, asked.length < SAMPLE ? answers : Infinity);
  const longest = longOf(asked, LONG * answers);
  // One of them computes what the others need not.
  const shared =
    answers < 2
      ? 0
      : (commonTokens(beginnings) + asked.reduce((sum, each) => sum + (each.answers - 1) * (each.prompt - 1), 0)) /
        (answers - 1);
  return {
    promptTokens: total(({ prompt }) => prompt) / answers,
    newTokens: total(({ answer }) => answer) / answers,
    ...(longest !== undefined && { longRowTokens: longest }),
    ...(shared > 0 && { sharedPrefixTokens: shared }),
    ...(toDo < Infinity && { rows: toDo }),
  };
}

async function* rowsOf(inputs: readonly string[], format: ReadRowsOptions): AsyncGenerator<RowInput, void, undefined> {
  for (const input of inputs) yield* readRows(input, format);
}

/** The length that so many answers, or one more, do not go beyond. */
function longOf(asked: readonly Asked[], answers: number): number | undefined {
  let counted = 0;
  const byLength = asked
    .map((each) => ({ tokens: each.prompt + each.answer, answers: each.answers }))
    .sort((a, b) => a.tokens - b.tokens);
  return byLength.find((each) => (counted += each.answers) >= answers)?.tokens;
}

function preparedRow(
  row: RowInput,
  options: GenerateOptions,
  tokenizer: Tokenizer,
): ReturnType<typeof prepareRow> | undefined {
  if ('error' in row) return undefined;
  try {
    return prepareRow(row, options, tokenizer, NO_LIMITS);
  } catch {
    // A bad row; the run will say so in its result.
    return undefined;
  }
}
