/** Rows that lie one after another, or columns, or heads. */
export interface Range {
  readonly first: number;
  readonly count: number;
}

/** The heads of one share of a layer. */
export interface HeadShare {
  readonly queryHeads: Range;
  readonly keyHeads: Range;
}

/** The whole model's heads, and which of them each share has, where engines attend to some rows each. */
export interface RowAttention {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly shares: readonly HeadShare[];
}
