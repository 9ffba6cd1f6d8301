/** A row's number within a run; a row keeps it from admission to its end. */
export type RowId = number;

/** What the language-model head does with a range: nothing (mid-prompt), sample the next token from its last logits, or score the row's own next tokens. */
export type HeadMode = 'none' | 'sample' | 'score';

/** The tokens of one row that one square advances: one decode token, or a chunk of the prompt. */
export interface RowRange {
  readonly row: RowId;
  readonly firstPosition: number;
  readonly tokens: number;
  readonly head: HeadMode;
}

/**
 * One cell of the grid: in sweep `pass`, layer `layer` is applied to the batch in `slot`. Squares of one (pass, slot) share one `rows` array.
 * A slot holds one batch at a time, from its first layer to its last; a row stays in its slot; a slot's passes increase.
 */
export interface Square {
  readonly pass: number;
  readonly layer: number;
  readonly slot: number;
  readonly rows: readonly RowRange[];
}

/** The shape of a run: what a schedule may use. */
export interface Grid {
  readonly layers: number;
  /** Batches that share one sweep over the layers. */
  readonly slots: number;
  readonly rowsPerSlot: number;
  /** Most tokens that one square may advance; longer prompts come in chunks. */
  readonly tokensPerSquare: number;
}

/** Tokens that a square advances. */
export function squareTokens(square: Pick<Square, 'rows'>): number {
  let tokens = 0;
  for (const range of square.rows) tokens += range.tokens;
  return tokens;
}
