import type { RowAttention } from '../../model/dividedLayer.js';

/** A row's number within a run; a row keeps it from admission to its end. */
export type RowId = number;

/**
 * The work of the language-model head on a range: nothing (mid-prompt), sample the next token from its last logits, or
 * score the row's own next tokens.
 */
export type HeadMode = 'none' | 'sample' | 'score';

/** The tokens of one row that one square advances: one decode token, or a chunk of the prompt. */
export interface RowRange {
  readonly row: RowId;
  readonly firstPosition: number;
  readonly tokens: number;
  readonly head: HeadMode;
  /**
   * The positions before that others computed and may look at, too. What a device does is independent of their number;
   * how long it takes is not. Default 0.
   */
  readonly sharedTokens?: number;
}

/**
 * Rows that go through the layers together: those of a slot in one pass. A slot holds one batch at a time, from its
 * first layer to its last; a row stays in its slot, unless it has given its place to another row in between; a slot's
 * passes increase.
 */
export interface Batch {
  readonly pass: number;
  readonly slot: number;
  readonly rows: readonly RowRange[];
}

/** One cell of the grid: a layer is applied to a batch. The squares of a batch, one a layer, name the same object. */
export interface Square {
  readonly batch: Batch;
  readonly layer: number;
}

/** The share of each layer that an engine has, of several which go through the same squares. */
export interface GridShare {
  /** The first one, 0, embeds and samples. */
  readonly index: number;
  readonly of: number;
  /** Sums of all shares that a layer takes: after attention and feed-forward; 1 where these branches are parallel. */
  readonly sums: 1 | 2;
  /** Where each engine attends to some rows with all heads. Default: to all rows with its own. */
  readonly attention?: RowAttention;
}

/** The shape of a run: what a schedule may use. */
export interface Grid {
  readonly layers: number;
  /**
   * Where these are a part of a model's layers: squares have layers from `first` to `first + layers - 1`, of `of`
   * layers in all. Default: they are all of them. (A schedule is asked only where the first layer is among them: it may
   * count from 0.)
   */
  readonly part?: { readonly first: number; readonly of: number };
  /** Where this engine has a share of each layer. Default: all of them. */
  readonly share?: GridShare;
  /** Batches that share one sweep over the layers. */
  readonly slots: number;
  readonly rowsPerSlot: number;
  /** Most tokens that one square may advance; longer prompts come in chunks. */
  readonly tokensPerSquare: number;
  /**
   * Tokens of an encoder's square: rows advance by all of their tokens at once, and a square takes some up to so many
   * tokens, or one longer row. Default: prompts may come in chunks.
   */
  readonly wholeRows?: number;
  /**
   * Parts of the slots that sweep by themselves, in turn: slot s belongs to part s modulo their number. Where the
   * layers are divided over engines, so many parts are at different engines at once. A schedule may ignore it. Default
   * 1: a sweep advances all slots.
   */
  readonly microBatches?: number;
}

/** The layers of a grid, by their numbers in the model. */
export interface LayerBounds {
  readonly first: number;
  readonly last: number;
  /** The model's first layer is among them, before which tokens are embedded here. */
  readonly embeds: boolean;
  /** The model's last layer is among them, after which tokens are sampled here. */
  readonly samples: boolean;
}

export function layerBounds({
  layers,
  part = { first: 0, of: layers },
  share,
}: Pick<Grid, 'layers' | 'part' | 'share'>): LayerBounds {
  const last = part.first + layers - 1;
  const leads = share === undefined || share.index === 0;
  return { first: part.first, last, embeds: leads && part.first === 0, samples: leads && last === part.of - 1 };
}

/** Says which batch of a run it is. */
export function batchKey({ pass, slot }: Pick<Batch, 'pass' | 'slot'>): string {
  return `${pass} ${slot}`;
}

/** Tokens by which a batch advances its rows, in each layer. */
export function batchTokens({ rows }: Pick<Batch, 'rows'>): number {
  let tokens = 0;
  for (const range of rows) tokens += range.tokens;
  return tokens;
}

/**
 * Tells whether the range is a token that an earlier pass sampled; the last token of a prompt, in a chunk of its own,
 * looks the same.
 */
export function mayBeSampled({
  firstPosition,
  tokens,
  head,
}: {
  readonly firstPosition: number;
  readonly tokens: number;
  readonly head: string;
}): boolean {
  return tokens === 1 && firstPosition > 0 && head === 'sample';
}

/** How the tokens of a batch divide into those of prompts and those that decode. */
export function tokensByPhase({ rows }: Pick<Batch, 'rows'>): { readonly prompt: number; readonly decode: number } {
  const counts = { prompt: 0, decode: 0 };
  for (const range of rows) {
    if (mayBeSampled(range)) counts.decode++;
    else counts.prompt += range.tokens;
  }
  return counts;
}
