import { writeFileSync } from 'node:fs';

/**
 * Writes rows {id, tokens} for rows {id, prompt}: ids of the model's own tokenizer, so that every tool gets the same.
 *
 * @param {{id: number, prompt: string}[]} rows
 * @param source what `readModel` gives
 * @param {number} [promptTokens] so many of each prompt are kept
 * @returns {Promise<number[]>} the rows' lengths
 */
export async function writeTokenRows(file, rows, source, promptTokens) {
  const { createTokenizer } = await import('../../dist/api/models.js');
  const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
  const written = rows.map(({ id, prompt }) => {
    const tokens = [...tokenizer.encode(prompt, { specialTokens: true, parseSpecial: false })];
    if (tokens.length < (promptTokens ?? 0))
      throw new Error(`row ${id} has ${tokens.length} tokens, expected at least ${promptTokens}`);
    return { id, tokens: tokens.slice(0, promptTokens) };
  });
  writeFileSync(file, written.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return written.map(({ tokens }) => tokens.length);
}

/** Numbers that a token's keys and values have, over all layers. */
export function cacheElements({ decoder: { layers, kvHeads, headDim } }) {
  return 2 * layers * kvHeads * headDim;
}
