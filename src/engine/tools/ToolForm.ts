import type { ReasoningMarks } from '../../model/Tokenizer.js';
import type { AskedTools } from '../../rows/tools.js';
import type { EnforcedSchema } from '../../schema/EnforcedSchema.js';
import type { Rules } from './Rules.js';
import type { Reader, Steps, Tell } from './Reader.js';

/** A tool whose arguments can be held to its parameters. */
export interface CallableTool {
  readonly name: string;
  /**
   * The schema of the tool's arguments: an object, of no other properties than those listed where it lists any and does
   * not say.
   */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly schema: EnforcedSchema;
}

export type Tools = ReadonlyMap<string, CallableTool>;

/** Reasoning that may stand before an answer. */
export interface Reasoned {
  readonly marks: ReasoningMarks | undefined;
  /** It has begun before the answer, in the prompt. */
  readonly open: boolean;
  /** Marks that show nowhere, for they are control tokens. Default none. */
  readonly hidden?: readonly string[];
  /** A text that calls nothing is held to a format: it begins as no call does, and has no call in it. */
  readonly held?: boolean;
}

export interface CallRules extends Omit<AskedTools, 'tools'>, Reasoned {
  readonly tools: Tools;
  /** An expression for an answer that calls nothing, where it is held to a format. */
  readonly text?: ((rules: Rules) => string) | undefined;
  /** True where arguments that stand as texts are held to their patterns, formats and lengths. */
  readonly holdsTexts?: boolean;
}

/** How a model writes calls of tools, as its chat template shows. */
export interface ToolForm {
  readonly name: string;
  /** Tells whether a chat template writes calls in this form. */
  isIn(template: string): boolean;
  /** Control tokens that are text in its answers. */
  readonly markers: readonly string[];
  /** Control tokens that end an answer with calls, where the model's own end tokens do not say so. */
  readonly stops: readonly string[];
  /** A grammar of answers, in Lark's notation, with the schemas that it refers to. */
  grammar(rules: CallRules): { readonly lark: string; readonly schemas: readonly unknown[] };
  /**
   * Tells the parts of an answer as it comes. Text of which nothing can be made is said to be so, never left out.
   * @returns what is wrong with it: a call that is no whole one, say
   */
  read(reader: Reader, tools: Tools, parts: AnswerParts, held: boolean): Steps<string | undefined>;
  /** Reasoning has marks of the form's own, which `read` tells of. */
  readonly readsReasoning?: true;
  /** The end of a prompt, of a form in which answers without tools have their parts, too. */
  readonly opens?: string;
  /** The id of a call where the form has its own kind: of 64 hexadecimal digits that stand for its place. */
  id?(name: string, nth: number, digits: string): string;
}

/** How arguments are written. */
export interface ArgumentForm {
  /** An expression of a grammar for a tool's arguments; empty where it has none. */
  rule(tool: CallableTool, rules: Rules): string;
  /** Tells those that stand here as JSON, with numbers as they are written. @returns whether they are whole ones */
  read(reader: Reader, tool: CallableTool, tell: Tell): Steps<boolean>;
}

/** The parts that an answer turns out to have: all that each is told, put together, is that part of it. */
export interface AnswerParts {
  /** Told at least once, of no text, where there is reasoning at all. */
  readonly reasoning: Tell;
  /** The same as it stands in the text, with what is round it, in order with the content. */
  readonly thought: Tell;
  readonly content: Tell;
  /** The next call begins. */
  readonly call: (name: string) => void;
  /** JSON: arguments of the last call that has begun. */
  readonly arguments: Tell;
}

/** A call of a tool in an answer. */
export interface ParsedCall {
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/** The contents of an answer, in its parts. */
export interface ParsedAnswer {
  readonly reasoning?: string;
  readonly content: string;
  /** The content, and the reasoning as it stands there. */
  readonly kept: string;
  readonly calls: readonly ParsedCall[];
  /** The problem with the answer. Calls need not be whole ones then. */
  readonly problem?: string;
}
