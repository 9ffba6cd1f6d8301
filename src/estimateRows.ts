import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from './arguments/checkMembers.js';
import { whole, object } from './arguments/memberChecks.js';
import { prepareRow } from './engine/rows/prepareRow.js';
import type { ExpectedRows } from './ExpectedRows.js';
import { inputFiles, type InputPaths } from './jobs/input/inputFiles.js';
import { readRows, type ReadRowsOptions } from './jobs/input/readRows.js';
import type { Tokenizer } from './model/Tokenizer.js';
import { commonTokens } from './rows/commonTokens.js';
import type { GenerateOptions, RowInput } from './Row.js';

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

/** What rows are, beside what files say. */
export interface EstimateRowsOptions {
  /** How files are read. Default: as `readRows` does. */
  readonly read?: ReadRowsOptions;
  /** What rows are told that do not say it themselves, as for the run. Default: nothing. */
  readonly generate?: GenerateOptions;
  /** How many results there are to do. Default: as many as the files say, where that is seen. */
  readonly rows?: number;
}

const CHECKS: Readonly<Record<keyof EstimateRowsOptions, Check>> = { read: object, generate: object, rows: whole(0) };

/**
 * What the first rows of files say of all of them: prompts as they are, answers as long as they may become. That is
 * what `Engine.open({ expectedRows: (tokenizer) => estimateRows(file, tokenizer) })` plans for. A file that ends among
 * them has so many rows, and bad ones are no work. Of a row with several samples each is one, which shares the prompt
 * with the others.
 * @param input paths or patterns
 * @returns undefined for no files, and for what can be read only once: a pipe, a device
 * @throws UsageError, JobFileError
 */
export async function estimateRows(
  input: InputPaths,
  tokenizer: Tokenizer,
  options: EstimateRowsOptions = {},
): Promise<ExpectedRows | undefined> {
  checkMembers('options', options, CHECKS);
  const { read = {}, generate = {}, rows = Infinity } = options;
  const inputs = await inputFiles(input);
  if (inputs.length === 0) return undefined;
  for (const file of inputs) if (!(await stat(file)).isFile()) return undefined;
  const asked: Asked[] = [];
  const beginnings: (readonly number[])[] = [];
  for await (const row of rowsOf(inputs, read)) {
    const prepared = preparedRow(row, generate, tokenizer);
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
