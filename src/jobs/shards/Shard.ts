import { extname } from 'node:path';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { isWithin, rangeWords, wholeRange } from '../../arguments/NumberRange.js';
import { whole } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { compressionOf } from '../formats/compression.js';

/**
 * A part of a job's rows, for one of several workers. Rows are dealt out by their place in the input, as cards are:
 * whoever reads the same input deals alike, whatever its format, whether or not its length is known, and a row stays
 * where it was dealt when more rows come after.
 */
export interface Shard {
  /** From 0, as array jobs of Kubernetes, Slurm and AWS Batch count. */
  readonly index: number;
  /** How many there are. */
  readonly count: number;
  /**
   * Rows that are dealt at a time. Default 1. More of them, where prompts that begin alike stand together, so that what
   * they share is computed by one worker.
   */
  readonly rows?: number;
}

/** A shard with its defaults filled in, as records hold it. */
export type SettledShard = Required<Shard>;

/** Names of parts have five digits. */
export const SHARDS = wholeRange(1, 100_000);
export const SHARD_ROWS = wholeRange(1);

const CHECKS: Readonly<Record<keyof Shard, Check>> = {
  index: whole(0),
  count: whole(SHARDS.least, SHARDS.most),
  rows: whole(SHARD_ROWS.least),
};

/** @throws UsageError naming what was found and what was expected */
export function checkShard(name: string, value: unknown): void {
  checkMembers(name, value, CHECKS, `${name}.`);
  const { index, count } = value as Partial<Shard>;
  CHECKS.count(`${name}.count`, count);
  CHECKS.index(`${name}.index`, index);
  checkIndex(`${name}.index`, index, count);
}

/** @throws UsageError unless there is such a shard */
export function checkIndex(name: string, index: unknown, count = 1): void {
  const range = wholeRange(0, count - 1);
  if (!isWithin(index, range))
    throw new UsageError(
      `${name}: found ${String(index)}, expected ${rangeWords(range, index)}, as there are ${count} shards, counted from 0`,
    );
}

export function settledShard({ index, count, rows = 1 }: Shard): SettledShard {
  return { index, count, rows };
}

/** The shard that a row is dealt to. @param row from 0 */
export function shardOfRow(row: number, { count, rows }: Omit<SettledShard, 'index'>): number {
  return Math.floor(row / rows) % count;
}

/** How many of an input's rows are a shard's. */
export function rowsOfShard(total: number, { index, count, rows }: SettledShard): number {
  const round = rows * count;
  const last = (total % round) - index * rows;
  return Math.floor(total / round) * rows + Math.min(Math.max(last, 0), rows);
}

/**
 * Names the part of a shard whose output as a whole is to be `path`: `answers-00002-of-00008.csv` of `answers.csv`, as
 * TensorFlow, Beam and Hugging Face's datasets name theirs.
 */
export function shardPath(path: string, { index, count }: Pick<Shard, 'index' | 'count'>): string {
  const { stem, ending } = splitPath(path);
  return `${stem}-${digits(index)}-of-${digits(count)}${ending}`;
}

/** Tells which shard's part a name without its folder would be of an output of that name. */
export function shardOfName(name: string, output: string): Pick<Shard, 'index' | 'count'> | undefined {
  const { stem, ending } = splitPath(output);
  if (!name.startsWith(`${stem}-`) || !name.endsWith(ending)) return undefined;
  const between = name.slice(stem.length, name.length - ending.length);
  const [, index, count] = /^-(\d{5,})-of-(\d{5,})$/.exec(between) ?? [];
  return index === undefined || count === undefined ? undefined : { index: Number(index), count: Number(count) };
}

/** The mark of how a file is compressed belongs to its ending. */
function splitPath(path: string): { readonly stem: string; readonly ending: string } {
  const { name } = compressionOf(path);
  const ending = extname(name) + path.slice(name.length);
  return { stem: path.slice(0, path.length - ending.length), ending };
}

function digits(value: number): string {
  return String(value).padStart(5, '0');
}
