import * as tokenizers from '@huggingface/tokenizers';

// The part of Hugging Face's library that is used here. Its own declarations import each other without file
// extensions, which TypeScript does not resolve for ES modules in Node, so that all their classes come out as empty
// types.

/** Its translation of Oniguruma's patterns to JavaScript's. */
export const { SplitPreTokenizer } = tokenizers as unknown as {
  readonly SplitPreTokenizer: new (config: {
    readonly type: 'Split';
    readonly pattern: { readonly Regex: string };
    readonly behavior: string;
    readonly invert: boolean;
  }) => { readonly pattern: RegExp | null };
};
