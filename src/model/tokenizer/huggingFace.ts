import * as tokenizers from '@huggingface/tokenizers';

// The parts of Hugging Face's library that are used here. Its own declarations import each other without file
// extensions, which TypeScript does not resolve for ES modules in Node, so that all their classes come out as empty
// types.

/** Its translation of Oniguruma's patterns to JavaScript's, and its stand-in for SentencePiece's normalizers. */
export const { SplitPreTokenizer, PrecompiledNormalizer } = tokenizers as unknown as {
  readonly SplitPreTokenizer: new (config: {
    readonly type: 'Split';
    readonly pattern: { readonly Regex: string };
    readonly behavior: string;
    readonly invert: boolean;
  }) => { readonly pattern: RegExp | null };
  readonly PrecompiledNormalizer: new (config: {
    readonly type: 'Precompiled';
    readonly precompiled_charsmap: string;
  }) => { normalize(text: string): string };
};
