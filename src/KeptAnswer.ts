import type { VectorType } from './VectorType.js';

export interface TokenLogprob {
  readonly token: number;
  /** Natural logarithm, under the model's own distribution: before penalties, temperature and truncation. */
  readonly logprob: number;
}

/** How likely what a model has chosen was, over the tokens of it at which there was a choice. */
export interface Certainty {
  /** Their mean probability. */
  readonly mean: number;
  /** The least of them. */
  readonly least: number;
}

/** The answer of `generate`. */
export interface GeneratedAnswer {
  /** Without the end token and without the stop string. */
  readonly text: string;
  /**
   * The model's reasoning before its answer, where it reasoned and that was asked for separately: then `text` is the
   * answer alone.
   */
  readonly reasoning?: string;
  readonly tokens: readonly number[];
  readonly finishReason: 'stop' | 'length';
  /** How many attempts it took, of a row that has `retries` and is held to a format. */
  readonly attempts?: number;
  /**
   * How sure the model was, from 0 to 1, if asked for: the mean probability of the answer's tokens, each under the
   * model's own distribution over the tokens that the answer's format allowed there. Tokens to which there was no
   * alternative are left out, and of none there are the mean is 1. Of choices taken as wholes (temperature 0) it is the
   * probability of the choice among all of them.
   */
  readonly confidence?: number;
  /** The least of these probabilities. */
  readonly leastConfidence?: number;
  /** Both figures, over the tokens of each member's value, for an answer that is a JSON object. */
  readonly fieldConfidence?: Readonly<Record<string, Certainty>>;
  /** One entry a token of `tokens`, if asked for. */
  readonly logprobs?: readonly (TokenLogprob & { readonly top: readonly TokenLogprob[] })[];
}

/** The answer of `classify`. */
export interface ClassifiedAnswer {
  /** The most likely one; of equal ones the first. */
  readonly label: string;
  readonly probability: number;
  /**
   * The probability of each label, in their order, but for labels that are whole numbers: JavaScript's objects have
   * those first, by size. It is exp of the sum of the label's tokens' log-probabilities after the prompt, normalised
   * over the labels.
   */
  readonly probabilities: Readonly<Record<string, number>>;
}

export interface CompletionScore {
  /** Sum of its tokens' log-probabilities, natural, each after the prompt and the tokens before it. */
  readonly logprob: number;
  /** How many tokens it has. */
  readonly tokens: number;
  readonly tokenLogprobs?: readonly TokenLogprob[];
}

/** The answer of `score`. */
export interface ScoredAnswer {
  /** In the order of the completions. */
  readonly scores: readonly CompletionScore[];
}

export interface DocumentScore {
  /** The logit through a sigmoid. */
  readonly score: number;
  readonly logit: number;
}

/** The answer of `rerank`. */
export interface RankedAnswer {
  /** In the order of the documents. */
  readonly scores: readonly DocumentScore[];
}

/** The answer of `embed`. */
export interface EmbeddedAnswer {
  /** Numbers, of float32 with 9 digits, which are its own; or their bytes, little-endian, in base64. */
  readonly embedding: readonly number[] | string;
  /** The type of the numbers. Default `float32`. */
  readonly vectorType?: VectorType;
  /** The factor of `int8` without ranges: the numbers times this are the vector's. */
  readonly scale?: number;
}

/**
 * By task, what is kept of a row's result: what the model answered, and nothing of the row itself. Errors are not kept:
 * they may have other reasons than the row.
 */
export interface KeptAnswers {
  readonly generate: GeneratedAnswer;
  readonly classify: ClassifiedAnswer;
  readonly score: ScoredAnswer;
  readonly rerank: RankedAnswer;
  readonly embed: EmbeddedAnswer;
}

/** An answer of any task. */
export type KeptAnswer = KeptAnswers[keyof KeptAnswers];

/**
 * Answers by what determines them: a SHA-256, 64 hexadecimal digits, of the engine's `resultIdentity`, the prompt's
 * tokens, the task and all of its parameters. Answers of all tasks may lie in one store. `ReuseFile` is one.
 */
export interface AnswerStore {
  /** Any error it throws or rejects with ends the run. */
  get(key: string): Promise<KeptAnswer | undefined> | KeptAnswer | undefined;
  /**
   * Called with every row that has been computed, before its result is delivered. What it throws or rejects with ends
   * the run, which does not end before it.
   */
  put(key: string, answer: KeptAnswer): void | Promise<void>;
}
