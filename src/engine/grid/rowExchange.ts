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

/**
 * The columns that go from one engine to another. Queries are the one's that has their heads. Keys and values that
 * several engines have come from the nearest before the one that keeps the row, which may be that one itself. Pure.
 */
export function exchanged(attention: RowAttention, exchange: Exchange, from: number, to: number): Stretch[] {
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
      stretches.push({
        from: (queryHeads.count + value * keyHeads.count + head) * headDim,
        to: (heads + value * kvHeads + keyHeads.first + head) * headDim,
        count: headDim,
      });
    }
  return stretches;
}

/**
 * How many numbers go from engine to engine: what each token takes is found out once, for all batches. Pure.
 *
 * @returns of a batch of which each engine keeps so many tokens
 */
export function exchangeLengths(attention: RowAttention, exchange: Exchange): (tokens: readonly number[]) => Lengths {
  const { shares } = attention;
  const widths = shares.map((_, from) =>
    shares.map((__, to) => exchanged(attention, exchange, from, to).reduce((sum, { count }) => sum + count, 0)),
  );
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
 * @param own by engine that it is for
 * @returns by engine that it is from
 */
export async function ringExchange(
  own: readonly Float32Array[],
  lengths: Lengths,
  { index, of }: RingPlace,
  { send, receive }: RingEnds,
): Promise<Float32Array[]> {
  const arrived: Float32Array[] = Array.from({ length: of }, () => new Float32Array(0));
  arrived[index] = own[index] ?? new Float32Array(0);
  let going = joined(Array.from({ length: of - 1 }, (_, ahead) => own[place(index + 1 + ahead, of)]));
  for (let step = 0; step < of - 1; step++) {
    send(step, going);
    const from = place(index - 1 - step, of);
    let length = 0;
    for (let distance = step + 1; distance < of; distance++) length += lengths(from, place(from + distance, of));
    const came = await receive(step, length);
    const ours = lengths(from, index);
    arrived[from] = came.slice(0, ours);
    going = came.slice(ours);
  }
  return arrived;
}

/**
 * Takes out of an engine's rows what goes to each engine. Pure.
 * @param values [tokens, columns], row-major: of `rows` those of the batch, of `heads` those that the engine keeps
 */
export function takeOut(
  values: Float32Array,
  attention: RowAttention,
  exchange: Exchange,
  kept: KeptTokens,
  index: number,
): Float32Array[] {
  const width = widthBefore(attention, exchange, index);
  return attention.shares.map((_, to) => {
    const stretches = exchanged(attention, exchange, index, to);
    const tokens = exchange === 'rows' ? (kept[to] ?? []) : (kept[index] ?? []).map((__, place) => place);
    const taken = new Float32Array(tokens.length * stretches.reduce((sum, { count }) => sum + count, 0));
    let at = 0;
    for (const token of tokens)
      for (const { from, count } of stretches) {
        const begin = token * width + from;
        taken.set(values.subarray(begin, begin + count), at);
        at += count;
      }
    return taken;
  });
}

/**
 * Puts together what has come from each engine. Pure.
 * @returns [tokens, columns], row-major: of `rows` those that the engine keeps, of `heads` those of the batch
 */
export function putTogether(
  arrived: readonly Float32Array[],
  attention: RowAttention,
  exchange: Exchange,
  kept: KeptTokens,
  index: number,
): Float32Array {
  const width = widthAfter(attention, exchange, index);
  const ours = kept[index] ?? [];
  const count = exchange === 'rows' ? ours.length : kept.reduce((sum, { length }) => sum + length, 0);
  const values = new Float32Array(count * width);
  arrived.forEach((came, from) => {
    const stretches = exchanged(attention, exchange, from, index);
    const tokens = exchange === 'rows' ? ours.map((_, place) => place) : (kept[from] ?? []);
    let at = 0;
    for (const token of tokens)
      for (const { to, count: columns } of stretches) {
        values.set(came.subarray(at, at + columns), token * width + to);
        at += columns;
      }
  });
  return values;
}

function widthBefore({ heads, headDim, shares }: RowAttention, exchange: Exchange, index: number): number {
  const { queryHeads, keyHeads } = shares[index] ?? { queryHeads: { count: 0 }, keyHeads: { count: 0 } };
  return exchange === 'rows' ? (queryHeads.count + 2 * keyHeads.count) * headDim : heads * headDim;
}

function widthAfter({ heads, kvHeads, headDim, shares }: RowAttention, exchange: Exchange, index: number): number {
  return exchange === 'rows' ? (heads + 2 * kvHeads) * headDim : (shares[index]?.queryHeads.count ?? 0) * headDim;
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

function joined(parts: readonly (Float32Array | undefined)[]): Float32Array {
  const all = new Float32Array(parts.reduce((sum, part) => sum + (part?.length ?? 0), 0));
  let at = 0;
  for (const part of parts) {
    if (part) all.set(part, at);
    at += part?.length ?? 0;
  }
  return all;
}

function place(index: number, of: number): number {
  return ((index % of) + of) % of;
}
