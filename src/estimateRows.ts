import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from './arguments/checkMembers.js';
import { found } from './arguments/found.js';
import { whole, object } from './arguments/memberChecks.js';
import { prepareRow, type PreparedRow } from './engine/rows/prepareRow.js';
import { inTurns } from './collections/inTurns.js';
import { Turns } from './collections/Turns.js';
import { InterruptedError } from './errors/InterruptedError.js';
import { UsageError } from './errors/UsageError.js';
import type { ExpectedRows } from './ExpectedRows.js';
import { inputFiles, isInputPaths, type InputPaths } from './jobs/input/inputFiles.js';
import { readRows, type ReadRowsOptions } from './jobs/input/readRows.js';
import type { Tokenizer } from './model/Tokenizer.js';
import { commonTokens } from './rows/commonTokens.js';
import { heldBytes } from './rows/heldBytes.js';
import { readableRow } from './rows/readableRow.js';
import type { GenerateOptions, RowInput } from './Row.js';

/** Rows of the input that are looked at. */
const SAMPLE = 256;
/** Bytes that these rows may take together, and most of the input that is looked at for them, bad rows among it. */
const SAMPLE_BYTES = 16 * 2 ** 20;
/** A row that takes more is not encoded to see how long it is: the run does that, within its limits. */
const MOST_ROW_BYTES = 2 ** 20;
/** Tokens of each that are compared: how prompts begin. */
const COMPARED = 16_384;
/** The share of the answers that is no longer than what counts as long. */
const LONG = 0.95;
const NO_LIMITS = { contextTokens: Infinity, vocabularySize: Infinity };

/** The tokens and answers that a row asks for. */
interface Asked {
  readonly prompt: number;
  readonly answer: number;
  /** Answers that are computed: those of a row that leaves nothing to chance are one. */
  readonly answers: number;
}

/** The options of rows, beside what they say themselves. */
export interface EstimateRowsOptions {
  /** How files are read. Default: as `readRows` does. */
  readonly read?: ReadRowsOptions;
  /** Options of rows that bring none of their own, as for the run; their `signal` ends looking. Default: none. */
  readonly generate?: GenerateOptions;
  /** How many results there are to do. Default: as many as there are rows for, where that is seen. */
  readonly rows?: number;
}

const CHECKS: Readonly<Record<keyof EstimateRowsOptions, Check>> = { read: object, generate: object, rows: whole(0) };

/** Rows that can be looked at without anybody missing them. */
interface RowsToLookAt {
  readonly rows: AsyncIterable<RowInput> | Iterable<RowInput>;
  /** How many there are, where that is known before they are looked at. */
  readonly count?: number;
}

/**
 * Estimates all rows from the first 256: prompts as they are, answers as long as they may become. That is what
 * `Engine.open({ expectedRows: (tokenizer) => estimateRows(rows, tokenizer) })` plans for, and without it an engine
 * plans for many rows of 384 and 128 tokens. Rows are counted where they are an array or end among the first; bad ones
 * are no work. Of a row with several samples each is one, which shares the prompt with the others.
 *
 * @param input paths or patterns of files, or the rows themselves as `generate` takes them: an array, or another
 *   iterable that begins anew each time. Texts are paths; of prompts make rows, `texts.map((prompt) => ({ prompt }))`
 * @returns undefined for an empty array, and for what can be read only once, which is left as it is: a pipe, a device,
 *   a generator
 * @throws UsageError, JobFileError; InterruptedError when `generate.signal` fires
 */
export async function estimateRows(
  input: InputPaths | Iterable<RowInput>,
  tokenizer: Tokenizer,
  options: EstimateRowsOptions = {},
): Promise<ExpectedRows | undefined> {
  checkMembers('options', options, CHECKS);
  const { read, rows: left = Infinity } = options;
  // A copy: what it says is found out once.
  const generate = { ...options.generate };
  // Each is an answer of its own, and shares the row's text with the others.
  const questions = generate.questions?.length ?? 1;
  const { chunkTokens } = generate;
  // Parts of rows that are still to come are not known.
  const most = chunkTokens === undefined ? left * questions : Infinity;
  const source = isInputPaths(input) ? await rowsOfFiles(input, read) : rowsInMemory(input, read);
  if (source === undefined) return undefined;
  const asked: Asked[] = [];
  const beginnings: (readonly number[])[] = [];
  const turns = new Turns();
  let seen = 0;
  let bytes = 0;
  let whole = true;
  for await (const row of source.rows) {
    if (turns.due) await turns.give();
    if (generate.signal?.aborted === true) throw new InterruptedError(generate.signal.reason);
    seen++;
    const own = heldBytes(row, SAMPLE_BYTES);
    bytes += own;
    if (bytes > SAMPLE_BYTES && asked.length > 0) {
      whole = false;
      break;
    }
    const prepared = own > MOST_ROW_BYTES ? undefined : await preparedRow(row, generate, tokenizer);
    if (!prepared) continue;
    const { tokens, maxNewTokens, temperature, samples } = prepared;
    beginnings.push(tokens.slice(0, COMPARED));
    const parts = partsOf(tokens.length, generate);
    const part = {
      prompt: Math.ceil(tokens.length / parts),
      answer: maxNewTokens,
      answers: parts * questions * (temperature > 0 ? (samples?.length ?? 1) : 1),
    };
    if (asked.push(part) >= SAMPLE) break;
  }
  if (asked.length === 0) return { promptTokens: 0, newTokens: 0, rows: 0 };
  const total = (of: (each: Asked) => number): number => asked.reduce((sum, each) => sum + each.answers * of(each), 0);
  const answers = total(() => 1);
  // Those after them are taken to be like them.
  const { count = whole && asked.length < SAMPLE ? seen : Infinity } = source;
  const toDo = Math.min(most, Math.round((answers * count) / seen));
  const long = longOf(asked, LONG * answers);
  // One of them computes what the others need not.
  const shared =
    answers < 2
      ? 0
      : (commonTokens(beginnings) + asked.reduce((sum, each) => sum + (each.answers - 1) * (each.prompt - 1), 0)) /
        (answers - 1);
  return {
    promptTokens: total(({ prompt }) => prompt) / answers,
    newTokens: total(({ answer }) => answer) / answers,
    ...(long !== undefined && { longRowTokens: long }),
    ...(asked.length < SAMPLE && { longestRowTokens: Math.max(...asked.map(({ prompt, answer }) => prompt + answer)) }),
    ...(shared > 0 && { sharedPrefixTokens: shared }),
    ...(toDo < Infinity && { rows: toDo }),
  };
}

/** In how many parts a prompt of so many tokens is computed, by its own text, which is most of it. */
function partsOf(tokens: number, { chunkTokens = tokens, chunkOverlap = 0 }: GenerateOptions): number {
  const step = Math.max(1, chunkTokens - chunkOverlap);
  return Math.max(1, Math.ceil((tokens - chunkOverlap) / step));
}

/** @returns undefined for what can be read only once */
async function rowsOfFiles(input: InputPaths, read?: ReadRowsOptions): Promise<RowsToLookAt | undefined> {
  const files = await inputFiles(input);
  for (const file of files) if (!(await stat(file)).isFile()) return undefined;
  return { rows: rowsOf(files, read) };
}

async function* rowsOf(files: readonly string[], read?: ReadRowsOptions): AsyncGenerator<RowInput, void, undefined> {
  for (const file of files) yield* readRows(file, read);
}

/** @returns undefined where there are none, and for an iterator: its rows would be missing in the run */
function rowsInMemory(rows: unknown, read: ReadRowsOptions | undefined): RowsToLookAt | undefined {
  if (!isIterableAtOnce(rows))
    throw new UsageError(`input: found ${found(rows)}, expected paths, or an array or another iterable of rows`);
  // No files are no rows in memory either.
  if (Array.isArray(rows) && rows.length === 0) return undefined;
  if (read !== undefined) throw new UsageError('read: found it beside rows in memory, expected files');
  if (Array.isArray(rows)) return { rows: readable(rows), count: rows.length };
  const iterator: unknown = rows[Symbol.iterator]();
  return iterator === rows ? undefined : { rows: readable(rows) };
}

function isIterableAtOnce(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function* readable(rows: Iterable<unknown>): Generator<RowInput, void, undefined> {
  for (const row of rows) yield readableRow(row);
}

/** The length that so many answers, or one more, do not go beyond. */
function longOf(asked: readonly Asked[], answers: number): number | undefined {
  let counted = 0;
  const byLength = asked
    .map((each) => ({ tokens: each.prompt + each.answer, answers: each.answers }))
    .sort((a, b) => a.tokens - b.tokens);
  return byLength.find((each) => (counted += each.answers) >= answers)?.tokens;
}

async function preparedRow(
  row: RowInput,
  options: GenerateOptions,
  tokenizer: Tokenizer,
): Promise<PreparedRow | undefined> {
  if ('error' in row) return undefined;
  try {
    return await inTurns(prepareRow(row, options, tokenizer, NO_LIMITS), { signal: options.signal });
  } catch {
    if (options.signal?.aborted === true) throw new InterruptedError(options.signal.reason);
    // A bad row; the run will say so in its result.
    return undefined;
  }
}
