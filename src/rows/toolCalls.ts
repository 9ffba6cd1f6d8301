/** A call of a tool in an answer, as OpenAI writes it, and as messages of a conversation have it. */
export interface ToolCall {
  /** An id made of the row, the sample and the call: the same row calls under the same ids. */
  readonly id: string;
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    /** JSON: an object that is valid under the tool's `parameters`. */
    readonly arguments: string;
  };
}

/** The piece by which a tool call in an answer has grown. */
export interface ToolCallDelta {
  /** Which of the answer's calls it is, from 0. */
  readonly index: number;
  /** Where the call begins. */
  readonly id?: string;
  readonly name?: string;
  /** The piece of its arguments that has come since, JSON when they are all there. */
  readonly arguments: string;
}

/** A function by its name, as OpenAI writes it. */
export interface NamedFunction {
  readonly type: 'function';
  readonly function: { readonly name: string };
}

/** Which tools an answer calls, as OpenAI writes it. */
export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | NamedFunction
  | {
      readonly type: 'allowed_tools';
      readonly allowed_tools: { readonly mode: 'auto' | 'required'; readonly tools: readonly NamedFunction[] };
    };
