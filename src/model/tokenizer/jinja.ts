import * as library from '@huggingface/jinja';

/**
 * The parts of `@huggingface/jinja` that are used here. Its own declarations import each other without file extensions,
 * which TypeScript does not resolve for ES modules in Node, so that all its classes come out as empty types.
 */
export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
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
}

const classes = library as unknown as {
  readonly Environment: new () => JinjaEnvironment;
  readonly Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter;
  readonly Template: new (source: string) => { readonly parsed: JinjaNode };
};

export const { Environment, Interpreter, Template } = classes;
