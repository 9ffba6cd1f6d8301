import { UsageError } from '../errors/UsageError.js';
import type { DecoderSpec } from './DecoderSpec.js';
import type { HeadShare, Range, RowAttention } from './RowAttention.js';

export type { HeadShare, Range, RowAttention } from './RowAttention.js';

/** One of the shares into which every layer of a model is cut: which one, from 0, of how many. */
export interface LayerShare {
  readonly index: number;
  /** From 2 to 64. */
  readonly of: number;
  /**
   * How attention is divided. `heads`: each engine attends to all rows with its own heads, and keeps their keys and
   * values; a head of keys and values that several engines have is kept in each. `rows`: each attends to some of the
   * rows with all heads, and keeps the keys and values of these alone, for two further exchanges a layer. Results are
   * the same. Default `heads`.
   */
  readonly attention?: AttentionBy;
}

export const ATTENTION_BY = ['heads', 'rows'] as const;
export type AttentionBy = (typeof ATTENTION_BY)[number];

/** Feed-forward columns that do not divide evenly are cut into whole panels of so many, however they are stored. */
const PANEL = 32;

/**
 * The heads of one of the shares of a layer. Key and value heads go with all query heads that read them, to each share
 * as many as to every other or one more; the first one has the fewest. Where there are more shares than key and value
 * heads, several shares have the same one, each with a stretch of the query heads that read it. So a share's heads come
 * in groups of one size, and its cache is never larger than that of the most even division. Pure.
 *
 * @param block columns of the output projection's inputs that are stored together, which no share cuts through
 * @throws UsageError where that leaves a share without heads
 */
export function headsOfShare(
  { heads, kvHeads, headDim }: Pick<DecoderSpec, 'heads' | 'kvHeads' | 'headDim'>,
  block: number,
  { index, of }: LayerShare,
): HeadShare {
  const group = heads / kvHeads;
  /** Query heads whose columns are whole blocks. */
  const whole = block / commonDivisor(block, headDim);
  if (of <= kvHeads) {
    const step = whole / commonDivisor(whole, group);
    const keyHeads = scaled(stretchOf(kvHeads / step, { index, of }), step);
    // Where they do not divide by the step, the model's own output projection would cut through blocks.
    if (kvHeads % step === 0 && kvHeads / step >= of) return { queryHeads: scaled(keyHeads, group), keyHeads };
  } else {
    const firstOf = (keyHead: number): number => Math.floor((keyHead * of) / kvHeads);
    const keyHead = Math.ceil(((index + 1) * kvHeads) / of) - 1;
    const sharing = firstOf(keyHead + 1) - firstOf(keyHead);
    const most = group % whole === 0 ? group / whole : 0;
    // Of every key head, so that all shares are refused alike.
    if (most >= Math.ceil(of / kvHeads)) {
      const { first, count } = scaled(stretchOf(most, { index: index - firstOf(keyHead), of: sharing }), whole);
      return { queryHeads: { first: keyHead * group + first, count }, keyHeads: { first: keyHead, count: 1 } };
    }
  }
  const blocks =
    block > 1
      ? ` in whole blocks of ${block} weights: a file whose output projections have smaller blocks divides further`
      : '';
  throw refused(
    { index, of },
    `a number into which the model's ${heads} heads of ${headDim} (${kvHeads} of keys and values) divide${blocks}`,
  );
}

/**
 * The feed-forward columns of one of the shares of a layer: as many as of every other share or, where they do not
 * divide so, whole panels, one more than of some, and in the last share what is no whole panel. Pure.
 *
 * @param block inputs of the last product that are stored together
 * @throws UsageError where there are too few
 */
export function columnsOfShare(columns: number, block: number, share: LayerShare): Range {
  const { index, of } = share;
  const panel = columns % (of * block) === 0 || columns < of * PANEL ? block : Math.max(block, PANEL);
  const panels = Math.floor(columns / panel);
  if (panels < of) throw refused(share, `at most the model's ${panels} blocks of ${panel} feed-forward columns`);
  const { first, count } = scaled(stretchOf(panels, share), panel);
  return { first, count: index === of - 1 ? columns - first : count };
}

export function refused({ of }: LayerShare, expected: string): UsageError {
  return new UsageError(`tensorParallel.of: found ${of}, expected ${expected}`);
}

/** As many of `count` for each share as for every other, or one more. */
function stretchOf(count: number, { index, of }: LayerShare): Range {
  const first = Math.floor((index * count) / of);
  return { first, count: Math.floor(((index + 1) * count) / of) - first };
}

/** The heads of all shares. Pure. @throws UsageError as `headsOfShare` */
export function rowAttention(
  { heads, kvHeads, headDim }: Pick<DecoderSpec, 'heads' | 'kvHeads' | 'headDim'>,
  block: number,
  of: number,
): RowAttention {
  const shares = Array.from({ length: of }, (_, index) =>
    headsOfShare({ heads, kvHeads, headDim }, block, { index, of }),
  );
  return { heads, kvHeads, headDim, shares };
}

/** Pure. */
export function scaled({ first, count }: Range, by: number): Range {
  return { first: first * by, count: count * by };
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}
