import * as library from '@huggingface/tokenizers';

/**
 * The parts of `@huggingface/tokenizers` that are used here: its translation of Oniguruma's regular expressions to
 * JavaScript's, and its stand-in for SentencePiece's precompiled normalizers. Its own declarations import each other
 * without file extensions, which TypeScript does not resolve for ES modules in Node.
 */
const classes = library as unknown as {
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

export const { SplitPreTokenizer, PrecompiledNormalizer } = classes;
