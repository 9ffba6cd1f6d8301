/** A tokenizer's tokens and a compiled grammar: opaque, gone when nobody holds them any more. */
export interface NativeVocabulary {
  readonly vocabulary: unique symbol;
}
export interface NativeGrammar {
  readonly grammar: unique symbol;
}

export type GrammarKind = 'json_schema' | 'regex' | 'grammar' | 'choices' | 'composed';

/** Bytes of tokens, by id. */
export interface TokenTexts {
  /** The bytes of all tokens, one after another; none of tokens that no answer may have. */
  readonly bytes: Uint8Array;
  readonly lengths: Uint32Array;
  /** Tokens that add something else where an answer begins, and that. */
  readonly firstTokens: Uint32Array;
  readonly firstBytes: Uint8Array;
  readonly firstLengths: Uint32Array;
  /** Tokens that end an answer. */
  readonly ends: Uint32Array;
}

/**
 * GrammarRow::Place in native/grammar/Grammar.h: the answer so far is no whole one; it is, and can go on; it is, and
 * cannot; the grammar went beyond a limit.
 */
export const GRAMMAR_PLACES = ['open', 'accepting', 'ended', 'failed'] as const;
export type GrammarPlace = (typeof GRAMMAR_PLACES)[number];

/** The part of the addon for grammars. */
export interface GrammarAddon {
  /** True where the addon has constrained decoding: built where cargo was found. */
  readonly grammars: boolean;
  /**
   * Makes what grammars are compiled against, on a thread of its own, in a second or so. Rejects with a coded error
   * `invalid-argument`, also where `grammars` is false.
   */
  createVocabulary(texts: TokenTexts): Promise<NativeVocabulary>;
  /**
   * Compiles a grammar on a thread of its own: in milliseconds, in seconds at its limits (native/grammar/src). Rejects
   * with a coded error `invalid-argument` for a text that is not of its kind, has what is not supported, is beyond a
   * limit, or that no answer of the vocabulary's tokens fulfils.
   * @param text of kind `json_schema`, `choices` (an array of strings) and `composed` (`{lark, schemas}`: a grammar in
   * which the schemas are `@s0`, `@s1` and so on) JSON
   */
  compileGrammar(vocabulary: NativeVocabulary, kind: GrammarKind, text: string): Promise<NativeGrammar>;
}
