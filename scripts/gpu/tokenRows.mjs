// Rows of token ids for models that have no tokenizer: no two alike, the same ones in every run.

/** Ids of special tokens are left out. */
const FIRST_ID = 4;

function tokensOf(row, count, vocabularySize) {
  return Array.from(
    { length: count },
    (_, at) => FIRST_ID + ((row * 7919 + at * 104_729 + 17) % (vocabularySize - FIRST_ID)),
  );
}

/** All of one length. */
export function* uniformRows({ rows, promptTokens, vocabularySize }) {
  for (let row = 0; row < rows; row++) yield { id: row, tokens: tokensOf(row, promptTokens, vocabularySize) };
}

/** From 1 to `promptTokens` tokens, and 1 to `newTokens` answers, spread over both. */
export function* unequalRows({ rows, promptTokens, newTokens, vocabularySize }) {
  for (let row = 0; row < rows; row++) {
    const spread = (most, step) => 1 + Math.round(((((row + 1) * step) % 11) / 10) * (most - 1));
    yield {
      id: row,
      tokens: tokensOf(row, spread(promptTokens, 5), vocabularySize),
      maxNewTokens: spread(newTokens, 7),
    };
  }
}
