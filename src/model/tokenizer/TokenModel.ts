/** Splits one piece of text (a word, as the pre-tokenizer made it) into token ids. */
export interface TokenModel {
  /**
   * Appends the ids of `piece` to `out`. Any text is fine; what the vocabulary cannot express is dropped or becomes the
   * unknown token.
   */
  encode(piece: string, out: number[]): void;
}
