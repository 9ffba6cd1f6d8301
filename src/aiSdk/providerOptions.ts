import { type Check, checkMembers } from '../arguments/checkMembers.js';
import { checkBoolean } from '../arguments/checks.js';
import { number, object, oneOf, whole } from '../arguments/memberChecks.js';
import { UsageError } from '../errors/UsageError.js';
import { TRUNCATIONS, type Truncation } from '../Row.js';
import { POOLINGS } from '../Results.js';
import { PROVIDER, wrongArgument } from './errors.js';

/**
 * The options that `providerOptions.spillway` of a language model may have, under the names that `Engine.generate` has.
 */
export interface SpillwayLanguageOptions {
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly minNewTokens?: number;
  readonly logitBias?: Readonly<Record<string, number>>;
  readonly stopTokenIds?: readonly number[];
  readonly badWords?: readonly string[];
  readonly parallelToolCalls?: boolean;
  /** Variables of the chat template, such as `{ enable_thinking: false }`. */
  readonly templateArgs?: Readonly<Record<string, unknown>>;
  /**
   * The number of alternatives that each of `providerMetadata.spillway.logprobs` has: for the call, not for a batch.
   */
  readonly logprobs?: number;
  /** The call's priority: it comes before those of lower priority. */
  readonly priority?: number;
  /** The part cut of the call's prompt where that is too long. */
  readonly truncate?: Truncation;
  /** True where the model is told, for the call, of the schema that its answer is held to. Default true. */
  readonly schemaInPrompt?: boolean;
}

/** The options `providerOptions.spillway` of an embedding model may have. */
export interface SpillwayEmbeddingOptions {
  readonly pooling?: (typeof POOLINGS)[number];
  /** Which of the model's own prompts goes before each text, such as `query`. */
  readonly promptName?: string;
  readonly normalize?: boolean;
  readonly truncate?: Truncation;
  readonly priority?: number;
}

/** The options `providerOptions.spillway` of the other models may have. */
export interface SpillwayAnswerOptions {
  readonly truncate?: Truncation;
  readonly priority?: number;
}

/** Values of rows are checked where rows are. */
const any: Check = () => undefined;
const CALL = { priority: number({ least: -1_000_000, most: 1_000_000 }), truncate: oneOf(...TRUNCATIONS) };

const LANGUAGE: Readonly<Record<keyof SpillwayLanguageOptions, Check>> = {
  ...CALL,
  minP: any,
  repetitionPenalty: any,
  minNewTokens: any,
  logitBias: any,
  stopTokenIds: any,
  badWords: any,
  parallelToolCalls: checkBoolean,
  templateArgs: object,
  logprobs: whole(0),
  schemaInPrompt: checkBoolean,
};

const EMBEDDING: Readonly<Record<keyof SpillwayEmbeddingOptions, Check>> = {
  ...CALL,
  pooling: oneOf(...POOLINGS),
  promptName: any,
  normalize: checkBoolean,
};

const CHECKS = { language: LANGUAGE, embedding: EMBEDDING, answer: CALL } as const;

interface Options {
  readonly language: SpillwayLanguageOptions;
  readonly embedding: SpillwayEmbeddingOptions;
  readonly answer: SpillwayAnswerOptions;
}

/** Picks out of a call's `providerOptions` what is meant for us. @throws InvalidArgumentError */
export function ownOptions<Kind extends keyof Options>(
  kind: Kind,
  { providerOptions }: { readonly providerOptions?: Readonly<Record<string, unknown>> | undefined },
): Options[Kind] {
  const own = providerOptions?.[PROVIDER] ?? {};
  const name = `providerOptions.${PROVIDER}`;
  try {
    checkMembers(name, own, CHECKS[kind], `${name}.`);
    return own;
  } catch (error) {
    if (error instanceof UsageError) throw wrongArgument(name, error.message, error);
    throw error;
  }
}
