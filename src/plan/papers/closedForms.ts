/** Rows of one shape through a grid: what FlexGen's formulas are about. */
export interface UniformRows {
  readonly layers: number;
  /** Batches, each in a slot of its own while it lasts, and rows of each. */
  readonly batches: number;
  readonly rowsPerBatch: number;
  /** Batches that share a sweep; rows beyond come when places are free. */
  readonly slots: number;
  /** Tokens of each prompt; computed in one square, so a square has room for the prompts of a batch. */
  readonly promptTokens: number;
  /** Tokens that each row gets, at least 1. */
  readonly newTokens: number;
  /** Cache moves in whole pages of so many tokens. Default 1: token by token, as in the paper. */
  readonly pageTokens?: number;
}

/**
 * How often what has to be moved. Tokens and layers, not bytes: times the bytes of each, and the share that lives
 * elsewhere, it is I/O.
 */
export interface ClosedForm {
  /** Sweeps over the layers: how often each layer's weights are loaded. */
  readonly passes: number;
  /** Tokens of one layer's cache that are loaded, all layers and rows together. */
  readonly cacheTokensLoaded: number;
  readonly cacheTokensStored: number;
  /** Hidden states of one token that are stored after a layer and loaded for the next. */
  readonly hiddenTokensLoaded: number;
  readonly hiddenTokensStored: number;
}

/**
 * Gives what a schedule moves for uniform rows (FlexGen, appendix A.2): `row` reads all weights for each token of each
 * batch, a block schedule for each token of a whole block. Cache and hidden states do not depend on the order: for s
 * prompt tokens and n new ones each row loads and stores s·n + n(n - 1)/2 tokens of cache a layer, and hidden states of
 * s + n - 1 tokens between layers, each way.
 *
 * The diagonal block's passes are those of the zig-zag block where all rows are there from the start and are equally
 * long: they then end together, too. Its gain is a larger block (`blockGain`), and that no place is empty where rows
 * differ.
 */
export function closedForm(schedule: 'row' | 'zigzag' | 'diagonal', shape: UniformRows): ClosedForm {
  const { layers, batches, rowsPerBatch, slots, promptTokens: s, newTokens: n, pageTokens: unit = 1 } = shape;
  const rows = batches * rowsPerBatch;
  const blocks = schedule === 'row' ? batches : Math.ceil(batches / slots);
  const computed = rows * (s + n - 1);
  const pages = (tokens: number): number => Math.ceil(tokens / unit) * unit;
  // Of steps after the prompt's, which see s, s + 1, … tokens and add one to a page.
  let loaded = 0;
  for (let step = 0; step < n - 1; step++) loaded += pages(s + step);
  return {
    passes: blocks * n,
    cacheTokensLoaded: layers * rows * loaded,
    cacheTokensStored: layers * rows * (pages(s) + (n - 1) * unit),
    hiddenTokensLoaded: (layers - 1) * computed,
    hiddenTokensStored: (layers - 1) * computed,
  };
}

/** The weight of moves. */
export interface MovedShares {
  /** Weights of one layer, the cache of one token in one layer, the hidden state of one token. */
  readonly bytes: { readonly layerWeights: number; readonly tokenCache: number; readonly tokenActivations: number };
  /** The share of each that crosses the link in question. */
  readonly weights: number;
  readonly cache: number;
  readonly activations: number;
}

/** Bytes over one link to the compute tier (`loaded`) and back (`stored`). */
export function closedFormBytes(
  form: ClosedForm,
  layers: number,
  { bytes, weights, cache, activations }: MovedShares,
): {
  readonly weights: number;
  readonly cacheLoaded: number;
  readonly cacheStored: number;
  readonly activationsLoaded: number;
  readonly activationsStored: number;
} {
  return {
    weights: form.passes * layers * bytes.layerWeights * weights,
    cacheLoaded: form.cacheTokensLoaded * bytes.tokenCache * cache,
    cacheStored: form.cacheTokensStored * bytes.tokenCache * cache,
    activationsLoaded: form.hiddenTokensLoaded * bytes.tokenActivations * activations,
    activationsStored: form.hiddenTokensStored * bytes.tokenActivations * activations,
  };
}
