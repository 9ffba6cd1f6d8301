import type { RowAttention } from '../../model/dividedLayer.js';
import type { RingEnds, RingPlace } from './ringSum.js';

/**
 * Between the engines of a ring that attend to some rows each, with all heads: what a layer projects goes to those that
 * keep its rows (`rows`), and what they attend to comes back to those that have its heads (`heads`).
 */
export type Exchange = 'rows' | 'heads';

/** How many numbers go from one engine to another. */
export type Lengths = (from: number, to: number) => number;

/** Columns of a token that go from one engine to another: where they begin in its row there and here. */
interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** The tokens of a batch, in order, by the engine that keeps their row. */
export type KeptTokens = readonly (readonly number[])[];

/**
 * @param keeperOf the engine that keeps a row
 * @returns of each of `of` engines, which tokens of the batch it keeps. Pure
 */
export function keptTokens(
  ranges: readonly { readonly row: number; readonly tokens: number }[],
  keeperOf: (row: number) => number,
  of: number,
): KeptTokens {
  const kept: number[][] = Array.from({ length: of }, () => []);
  let token = 0;
  for (const { row, tokens } of ranges) {
    const own = kept[keeperOf(row)];
    for (let t = 0; t < tokens; t++) own?.push(token + t);
    token += tokens;
  }
  return kept;
}

/** The columns of all tokens that go from engine to engine in an exchange: found out once, for all batches. */
export interface Routes {
  readonly exchange: Exchange;
  /** By the engine that they go from, and the one that they go to. */
  readonly stretches: readonly (readonly (readonly Stretch[])[])[];
  /** How many they are together. */
  readonly widths: readonly (readonly number[])[];
  /** Columns of a token in an engine before the exchange, and after it. */
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** Pure. */
export function routesOf(attention: RowAttention, exchange: Exchange): Routes {
  const { heads, kvHeads, headDim, shares } = attention;
  const stretches = shares.map((_, from) => shares.map((__, to) => exchanged(attention, exchange, from, to)));
  const ours = shares.map(({ queryHeads, keyHeads }) =>
    exchange === 'rows' ? (queryHeads.count + 2 * keyHeads.count) * headDim : queryHeads.count * headDim,
  );
  const all = shares.map(() => (exchange === 'rows' ? heads + 2 * kvHeads : heads) * headDim);
  return {
    exchange,
    stretches,
    widths: stretches.map((each) => each.map((some) => some.reduce((sum, { count }) => sum + count, 0))),
    before: exchange === 'rows' ? ours : all,
    after: exchange === 'rows' ? all : ours,
  };
}

/**
 * The columns that go from one engine to another. Queries are the one's that has their heads. Keys and values that
 * several engines have come from the nearest before the one that keeps the row, which may be that one itself.
 */
function exchanged(attention: RowAttention, exchange: Exchange, from: number, to: number): Stretch[] {
  const { heads, kvHeads, headDim, shares } = attention;
  const [ours, theirs] = [shares[from], shares[to]];
  if (!ours || !theirs) return [];
  if (exchange === 'heads') {
    const { first, count } = theirs.queryHeads;
    return [{ from: first * headDim, to: 0, count: count * headDim }];
  }
  const { queryHeads, keyHeads } = ours;
  const stretches = [{ from: 0, to: queryHeads.first * headDim, count: queryHeads.count * headDim }];
  for (let value = 0; value < 2; value++)
    for (let head = 0; head < keyHeads.count; head++) {
      if (providerOf(attention, keyHeads.first + head, to) !== from) continue;
      const next = {
        from: (queryHeads.count + value * keyHeads.count + head) * headDim,
        to: (heads + value * kvHeads + keyHeads.first + head) * headDim,
        count: headDim,
      };
      const last = stretches.at(-1);
      // What lies together there and here is copied at once.
      if (last && last.from + last.count === next.from && last.to + last.count === next.to)
        stretches.splice(-1, 1, { ...last, count: last.count + headDim });
      else stretches.push(next);
    }
  return stretches;
}

/**
 * How many numbers go from engine to engine. Pure.
 * @returns of a batch of which each engine keeps so many tokens
 */
export function exchangeLengths({ exchange, widths }: Routes): (tokens: readonly number[]) => Lengths {
  return (tokens) => (from, to) => (widths[from]?.[to] ?? 0) * (tokens[exchange === 'rows' ? to : from] ?? 0);
}

/**
 * The numbers that an engine sends to the one after it: those that go from an engine before, or itself, to one after.
 * Pure.
 */
export function ringExchangeNumbers(lengths: Lengths, { index, of }: RingPlace): number {
  let numbers = 0;
  for (let behind = 0; behind < of - 1; behind++)
    for (let distance = behind + 1; distance < of; distance++) {
      const from = place(index - behind, of);
      numbers += lengths(from, place(from + distance, of));
    }
  return numbers;
}

/**
 * The most numbers of a token in one message of an exchange. A message is what one engine has for others, and each
 * token is kept by one: of `rows` it goes to that one, no wider than the engine projects; of `heads` it comes from that
 * one, each head to the engine that has it. Pure.
 */
export function mostExchanged({ heads, headDim, shares }: RowAttention): number {
  return headDim * Math.max(heads, ...shares.map(({ queryHeads, keyHeads }) => queryHeads.count + 2 * keyHeads.count));
}

/** Steps of an exchange. Pure. */
export function ringExchangeSteps(of: number): number {
  return of - 1;
}

/**
 * Hands what each engine of a ring has for each other one on, from one to the next, until it is there: an all-to-all.
 * With each step an engine takes what is its own out of what comes, and sends the rest on. Each step is sent, of
 * however few numbers: who has begun one knows that all before it have begun the one before.
 *
 * @param going what this engine has for the one after it, then for the one after that, and so on: see `takeOut`
 * @returns by engine that it is from, of this one nothing
 */
export async function ringExchange(
  going: Float32Array,
  lengths: Lengths,
  { index, of }: RingPlace,
  { send, receive }: RingEnds,
): Promise<Float32Array[]> {
  const arrived: Float32Array[] = Array.from({ length: of }, () => new Float32Array(0));
  for (let step = 0; step < of - 1; step++) {
    send(step, going);
    const from = place(index - 1 - step, of);
    let length = 0;
    for (let distance = step + 1; distance < of; distance++) length += lengths(from, place(from + distance, of));
    const came = await receive(step, length);
    const ours = lengths(from, index);
    arrived[from] = came.subarray(0, ours);
    going = came.subarray(ours);
  }
  return arrived;
}

/**
 * Takes out of an engine's rows what goes to each other engine, in the order in which they follow in the ring. Pure.
 * @param values [tokens, columns], row-major: of `rows` those of the batch, of `heads` those that the engine keeps
 * @param memory gives room for so many numbers, whatever is in it. Default: memory of its own
 */
export function takeOut(
  values: Float32Array,
  routes: Routes,
  kept: KeptTokens,
  index: number,
  memory: (length: number) => Float32Array = (length) => new Float32Array(length),
): Float32Array {
  const { exchange, stretches, widths, before } = routes;
  const of = widths.length;
  const length = exchangeLengths(routes)(kept.map((tokens) => tokens.length));
  const others = Array.from({ length: of - 1 }, (_, ahead) => place(index + 1 + ahead, of));
  const going = memory(others.reduce((sum, to) => sum + length(index, to), 0));
  let at = 0;
  for (const to of others) {
    const part = going.subarray(at, (at += length(index, to)));
    const ours = { values, width: before[index] ?? 0, tokens: exchange === 'rows' ? kept[to] : undefined };
    let column = 0;
    for (const { from, count } of stretches[index]?.[to] ?? []) {
      copyColumns(ours, { values: part, width: widths[index]?.[to] ?? 0 }, { from, to: column, count });
      column += count;
    }
  }
  return going;
}

/**
 * Puts together what has come from each other engine, and what this one has itself. Pure.
 * @param values as `takeOut` had them
 * @param memory as `takeOut` has it
 * @returns [tokens, columns], row-major: of `rows` those that the engine keeps, of `heads` those of the batch
 */
export function putTogether(
  arrived: readonly Float32Array[],
  values: Float32Array,
  { exchange, stretches, widths, before, after }: Routes,
  kept: KeptTokens,
  index: number,
  memory: (length: number) => Float32Array = (length) => new Float32Array(length),
): Float32Array {
  const ours = kept[index] ?? [];
  const byRows = exchange === 'rows';
  const width = after[index] ?? 0;
  const together = memory(width * (byRows ? ours.length : kept.reduce((sum, { length }) => sum + length, 0)));
  stretches.forEach((each, from) => {
    const there = { values: together, width, tokens: byRows ? undefined : kept[from] };
    let column = 0;
    for (const stretch of each[index] ?? []) {
      if (from === index)
        copyColumns({ values, width: before[index] ?? 0, tokens: byRows ? ours : undefined }, there, stretch);
      else {
        const came = { values: arrived[from] ?? new Float32Array(0), width: widths[from]?.[index] ?? 0 };
        copyColumns(came, there, { ...stretch, from: column });
      }
      column += stretch.count;
    }
  });
  return together;
}

/** Rows of numbers: those of some tokens, or without, all of them. */
interface Rows {
  readonly values: Float32Array;
  readonly width: number;
  readonly tokens?: readonly number[] | undefined;
}

/** Copies columns of the tokens of one into those of the other. */
function copyColumns(from: Rows, to: Rows, { from: first, to: at, count }: Stretch): void {
  if (count === 0) return;
  const tokens = (from.tokens ?? to.tokens)?.length ?? from.values.length / from.width;
  for (let token = 0; token < tokens; token++) {
    const begin = (from.tokens?.[token] ?? token) * from.width + first;
    to.values.set(from.values.subarray(begin, begin + count), (to.tokens?.[token] ?? token) * to.width + at);
  }
}

/** The engine that gives an engine the keys and values of a head. */
function providerOf({ shares }: RowAttention, head: number, to: number): number {
  for (let behind = 0; behind < shares.length; behind++) {
    const from = place(to - behind, shares.length);
    const { first = 0, count = 0 } = shares[from]?.keyHeads ?? {};
    if (head >= first && head < first + count) return from;
  }
  throw new RangeError(`no engine has head ${head} of keys and values`);
}

function place(index: number, of: number): number {
  return ((index % of) + of) % of;
}
