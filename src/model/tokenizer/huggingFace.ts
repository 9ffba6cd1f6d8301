import * as jinja from '@huggingface/jinja';
import * as tokenizers from '@huggingface/tokenizers';

// The parts of Hugging Face's libraries that are used here. Their own declarations import each other without file
// extensions, which TypeScript does not resolve for ES modules in Node, so that all their classes come out as empty
// types.

export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
  /** Methods and properties of a text, list or object. */
  readonly builtins?: ReadonlyMap<string, JinjaValue>;
}

export interface JinjaNode {
  readonly type: string;
}

export interface JinjaEnvironment {
  /** Declares a variable; a function is called with plain values. */
  set(name: string, value: unknown): JinjaValue;
}

export interface JinjaInterpreter {
  run(program: JinjaNode): JinjaValue;
  evaluate(statement: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  /** @param filterNode a name, or a call of one */
  applyFilter(operand: JinjaValue, filterNode: JinjaNode, environment: JinjaEnvironment): JinjaValue;
}

export const { Environment, Interpreter, Template } = jinja as unknown as {
  readonly Environment: new () => JinjaEnvironment;
  readonly Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter;
  readonly Template: new (source: string) => { readonly parsed: JinjaNode };
};

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
