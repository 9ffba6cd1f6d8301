/** Sizes of a decoder of about a billion weights, which nobody opens. */
export const BILLION = {
  layers: 22,
  hiddenSize: 2048,
  feedForwardSize: 5632,
  heads: 32,
  kvHeads: 4,
  headDim: 64,
  vocabularySize: 32_000,
  contextTokens: 2048,
} as const;
