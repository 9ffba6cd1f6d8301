import { EMPTY } from 'rxjs';
import { AskedRow } from '../engine/rows/AskedRow.js';
import { chunkedRows } from '../engine/rows/ChunkedRow.js';
import type { GeneratedResults, RowEvent, RunOptions, RunResults } from '../engine/rows/Generation.js';
import type { RowLimits } from '../engine/rows/promptTokens.js';
import type { Tokenizer } from '../model/Tokenizer.js';
import type { RowInput, RowResult } from '../Row.js';
import { areInTurn, settledQuestions } from '../rows/questions.js';
import { openLimits, splitResults } from './splitResults.js';

type Generate = (rows: AsyncIterable<RowInput>, options: RunOptions) => GeneratedResults<RowResult>;
type Rows = AsyncIterable<RowInput> | Iterable<RowInput>;

/**
 * The results of rows that are asked several questions, each of which is a row of one run.
 *
 * @param generate a run that generates
 * @param places rows that are computed at once
 */
export function askedResults(
  generate: Generate,
  rows: Rows,
  { questions: given, ...options }: RunOptions,
  places: number,
): GeneratedResults<RowResult> {
  const questions = settledQuestions('questions', given);
  // Of rows with questions to come the keys and values have to stay: few more than there are places.
  const inTurn = areInTurn(questions) ? Math.ceil(places / 4) : openLimits(options).rows;
  const results = splitResults(
    (asked, told) => generate(asked, { confidence: true, ...options, ...told }),
    rows,
    (row) => new AskedRow(row, questions),
    openLimits(options, places + inTurn),
    options,
  );
  return asGenerated(results);
}

/** The results of rows whose own text is computed in parts, each of which is a row of one run, as are their merges. */
export function chunkedResults(
  generate: Generate,
  rows: Rows,
  { now = new Date(), ...given }: RunOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): GeneratedResults<RowResult> {
  const { chunkTokens: _tokens, chunkOverlap: _overlap, merge: _merge, promptTemplate: _template, ...options } = given;
  const results = splitResults(
    (parts, told) => generate(parts, { ...options, now, ...told }),
    rows,
    chunkedRows({ ...given, now }, tokenizer, limits),
    openLimits(options),
    options,
  );
  return asGenerated(results);
}

/** Answers of rows that are several come as a whole. */
function asGenerated(results: RunResults<RowResult>): GeneratedResults<RowResult> {
  return Object.assign(results, {
    deltas$: EMPTY,
    events: async function* (): AsyncGenerator<RowEvent, void, undefined> {
      for await (const result of results) yield { type: 'result', result };
    },
  });
}
