import { createHash } from 'node:crypto';
import { found } from '../arguments/found.js';
import { isWithin, rangeWords, wholeRange } from '../arguments/NumberRange.js';
import { Turns } from '../collections/Turns.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowInput } from '../Row.js';
import { shareOf } from './ErrorLimit.js';
import { jsonCell } from './formats/columnText.js';

/** How many rows are drawn of an input: so many, or a share of them. */
export type RowSample = number | `${number}%`;

/** Which rows of its input a run of a job answers. */
export interface SubsetOptions {
  /**
   * Answers the first so many rows of the input alone, to see how they come out. The output is gone on with, by
   * `resume`, with a larger limit or without one: what was tried is part of the job. Default: all rows.
   */
  readonly limit?: number;
  /**
   * Answers a sample of the input alone, so many rows (an input that comes once takes a share alone) or a share such as
   * `1%`: the same rows whatever their order, as each is drawn by its id, else its prompt, and by `sampleSeed`. Gone on
   * with as after a `limit`; never beside one. Default: all rows.
   */
  readonly sample?: RowSample;
  /** Which sample is drawn. Default 0. */
  readonly sampleSeed?: number;
}

/** Most rows that are drawn by their number: their ranks are held while the input is read. */
const SAMPLE_ROWS = wholeRange(1, 1_000_000);

export const LIMIT = wholeRange(1);
export const SAMPLE_SEED = wholeRange(0);

/** Where a row stands in the order in which rows are drawn: those of the least ranks are the sample. */
interface Rank {
  /** From 0, below 1. */
  readonly rank: number;
  /** Tells apart rows that say the same. */
  readonly index: number;
}

type ReadAgain = () => AsyncIterable<RowInput> | Iterable<RowInput>;

/** The rows of an input that a run answers, where it does not answer all of them. */
export class RowSubset {
  private constructor(
    /** Most rows, where that is known. */
    private readonly most: number | undefined,
    private readonly limit: number,
    private readonly seed: number,
    private readonly last: Rank | undefined,
  ) {}

  /**
   * Makes the subset that a job's options say.
   * @param again reads the input from its beginning; undefined where it comes once
   * @returns undefined for all rows
   * @throws as `drawn`
   */
  static async of(
    { limit, sample, sampleSeed = 0 }: SubsetOptions,
    again: ReadAgain | undefined,
    signal?: AbortSignal,
  ): Promise<RowSubset | undefined> {
    if (limit !== undefined) return new RowSubset(limit, limit, 0, undefined);
    return sample === undefined ? undefined : RowSubset.drawn(sample, sampleSeed, again, signal);
  }

  /**
   * A sample of the input. Which rows are drawn follows from the seed and from what a row says (its id, else its
   * prompt), so that the order of the input, its format, and rows that are added or taken away change nothing for the
   * others of a share.
   * @throws UsageError for a number of rows of an input that comes once; InterruptedError; whatever reading throws
   */
  static async drawn(
    sample: RowSample,
    seed: number,
    again: ReadAgain | undefined,
    signal?: AbortSignal,
  ): Promise<RowSubset> {
    if (typeof sample === 'string') {
      const share = shareOf(sample) ?? 1;
      return new RowSubset(undefined, Infinity, seed, { rank: share, index: -1 });
    }
    if (again === undefined)
      throw new UsageError(
        `sample: found ${sample} rows of an input that comes once, which would have to be read to its end first, expected a share such as 1%`,
      );
    let least: Rank[] = [];
    const turns = new Turns();
    let index = 0;
    for await (const row of again()) {
      if (turns.due) await turns.give();
      if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      least.push({ rank: rankOf(row, index, seed), index });
      if (least.length >= 2 * sample) least = leastOf(least, sample);
      index += 1;
    }
    const drawn = leastOf(least, sample);
    return new RowSubset(drawn.length, Infinity, seed, drawn.at(-1));
  }

  /** How many of an input's rows they are, where that is known. */
  rowsOf(total: number | undefined): number | undefined {
    return total === undefined || this.most === undefined ? undefined : Math.min(total, this.most);
  }

  /** Tells whether a row is one of those that are answered. @param index its place in the input, from 0 */
  has(row: RowInput, index: number): boolean {
    if (index >= this.limit) return false;
    return this.last === undefined || compare({ rank: rankOf(row, index, this.seed), index }, this.last) <= 0;
  }

  /** Tells whether no row from this place on is in the subset. */
  endsBefore(index: number): boolean {
    return index >= this.limit;
  }
}

/** The rows themselves that are drawn, in the order of the input. @throws as `RowSubset.drawn` */
export async function drawnRows(
  rows: number,
  seed: number,
  again: ReadAgain | undefined,
  signal?: AbortSignal,
): Promise<RowInput[]> {
  const subset = await RowSubset.drawn(rows, seed, again, signal);
  const drawn: RowInput[] = [];
  let index = 0;
  for await (const row of again?.() ?? []) if (subset.has(row, index++)) drawn.push(row);
  return drawn;
}

/** @throws UsageError unless it is a number of rows or a share of them */
export function checkSample(name: string, value: unknown): asserts value is RowSample {
  if (isWithin(value, SAMPLE_ROWS) || (typeof value === 'string' && (shareOf(value) ?? 0) > 0)) return;
  throw new UsageError(
    `${name}: found ${found(value)}, expected ${rangeWords(SAMPLE_ROWS, value)}, or a share of the rows above 0% and up to 100%`,
  );
}

/** 48 bits of a digest as a fraction. */
function rankOf(row: RowInput, index: number, seed: number): number {
  const digest = createHash('sha256')
    .update(`${seed}\n${textOf(said(row)) ?? index}`)
    .digest();
  return digest.readUIntBE(0, 6) / 2 ** 48;
}

/** By what a row is known; undefined for one that could not be read. */
function said(row: RowInput): unknown {
  if (row.id !== undefined) return row.id;
  if ('error' in row) return undefined;
  const { prompt, messages, tokens, fields }: Partial<Record<'prompt' | 'messages' | 'tokens' | 'fields', unknown>> =
    row;
  return { prompt, messages, tokens, fields };
}

/** Undefined for what JSON has no words for: nesting that is too deep, a cycle. */
function textOf(value: unknown): string | undefined {
  try {
    return jsonCell(value);
  } catch {
    return undefined;
  }
}

/** Above 0 where the first one comes later. */
function compare(a: Rank, b: Rank): number {
  return a.rank - b.rank || a.index - b.index;
}

/** The first ones, in order. */
function leastOf(ranks: readonly Rank[], most: number): Rank[] {
  return [...ranks].sort(compare).slice(0, most);
}
