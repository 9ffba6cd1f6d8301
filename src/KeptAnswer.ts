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

/** What `generate` answers. */
export interface GeneratedAnswer {
  /** Without the end token and without the stop string. */
  readonly text: string;
  /**
   * What the model reasoned before its answer, where it did and it was asked for separately: then `text` is the answer
   * alone.
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
  /** Of an answer that is a JSON object: both, over the tokens of each member's value. */
  readonly fieldConfidence?: Readonly<Record<string, Certainty>>;
  /** One entry a token of `tokens`, if asked for. */
  readonly logprobs?: readonly (TokenLogprob & { readonly top: readonly TokenLogprob[] })[];
}

/** What `classify` answers. */
export interface ClassifiedAnswer {
  /** The most likely one; of equal ones the first. */
  readonly label: string;
  readonly probability: number;
  /**
   * Of each label, in their order, but for labels that are whole numbers: JavaScript's objects have those first, by
   * size. exp of the sum of its tokens' log-probabilities behind the prompt, normalised over the labels.
   */
  readonly probabilities: Readonly<Record<string, number>>;
}

export interface CompletionScore {
  /** Sum of its tokens' log-probabilities, natural, each behind the prompt and the tokens before it. */
  readonly logprob: number;
  /** How many tokens it has. */
  readonly tokens: number;
  readonly tokenLogprobs?: readonly TokenLogprob[];
}

/** What `score` answers. */
export interface ScoredAnswer {
  /** In the order of the completions. */
  readonly scores: readonly CompletionScore[];
}

export interface DocumentScore {
  /** The logit through a sigmoid. */
  readonly score: number;
  readonly logit: number;
}

/** What `rerank` answers. */
export interface RankedAnswer {
  /** In the order of the documents. */
  readonly scores: readonly DocumentScore[];
}

/** What `embed` answers. */
export interface EmbeddedAnswer {
  /** Numbers, of float32 with 9 digits, which are its own; or their bytes, little-endian, in base64. */
  readonly embedding: readonly number[] | string;
  /** What the numbers are. Default `float32`. */
  readonly vectorType?: VectorType;
  /** Of `int8` without ranges: the numbers times this are the vector's. */
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
  /** What it throws or rejects with ends the run. */
  get(key: string): Promise<KeptAnswer | undefined> | KeptAnswer | undefined;
  /**
   * Called with every row that has been computed, before its result is delivered. What it throws or rejects with ends
   * the run, which does not end before it.
   */
  put(key: string, answer: KeptAnswer): void | Promise<void>;
}
