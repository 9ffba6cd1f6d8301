import type { TokenModel } from './TokenModel.js';

/**
 * Lets a model without a pre-tokenizer work word by word. Where no piece has `▁` behind another character, nothing ever
 * merges across the beginning of a word, so cutting there changes no result; it makes words cacheable.
 * @param pieces all tokens that merging can make
 * @returns undefined if some piece does
 */
export function wordByWord(model: TokenModel, pieces: Iterable<string>): TokenModel | undefined {
  for (const piece of pieces) if (/[^▁]▁/u.test(piece)) return undefined;
  return {
    encode: (text, out) => {
      let start = 0;
      for (let at = text.indexOf('▁', 1); at >= 0; at = text.indexOf('▁', at + 1)) {
        if (text.charAt(at - 1) === '▁') continue;
        model.encode(text.slice(start, at), out);
        start = at;
      }
      model.encode(text.slice(start), out);
    },
  };
}
