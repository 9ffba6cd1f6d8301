import type { ClassifiedAnswer, EmbeddedAnswer, RankedAnswer, ScoredAnswer } from './KeptAnswer.js';
import type { GenerateOptions, Label, PromptOptions, RowChunk, RowFailure, RowResult } from './Row.js';
import type { ChunkOptions, ChunkPlace } from './rows/chunks.js';
import type { VectorType } from './VectorType.js';

export { VECTOR_TYPES, type VectorType } from './VectorType.js';

/** Options of the calls that generate nothing: how prompts are made, and how the run is told of. */
export interface AnswerOptions
  extends
    PromptOptions,
    Pick<GenerateOptions, 'order' | 'rowTimeout' | 'reuse' | 'signal' | 'onProgress' | 'onStats' | 'onTrace'> {}

/** Options of one `classify` call. */
export interface ClassifyOptions extends AnswerOptions {
  /**
   * 1 to 1024 texts, none of them empty, no two alike; a row may have `labels` of its own. One with a `name` has it in
   * results, in the place of its text: `{ name: 'spam', text: ' Yes' }`. Default: every row has.
   */
  readonly labels?: readonly Label[];
  /** The end token counts as the last of each label: `Yes` is then not the beginning of `Yes, but`. Default false. */
  readonly labelEnd?: boolean;
  /**
   * How likely each label is whatever a row says: probabilities are divided by it, and normalised again. Numbers above
   * 0, one a label of `labels`; or a text that says nothing, such as `N/A`, as the prompt of a row (in a
   * `promptTemplate`: as each of its fields), under which the labels' own probabilities are the prior: contextual
   * calibration, Zhao et al. 2021, arXiv:2102.09690. That prompt is raw text or a user's message, as a row's is, with
   * the row's `tools` and `templateArgs`: one prior for each way that rows come in. Only for rows without labels of
   * their own. Default: none.
   */
  readonly labelPrior?: readonly number[] | string;
  /**
   * The text that may follow from a row's, with `{}` for the label: for a model that tells whether one text follows
   * from another (natural language inference), and beside `labels`. Default `This example is {}.`
   */
  readonly hypothesisTemplate?: string;
}

/** Options of one `rerank` call: rows have a `query` and `documents`, or a `document`, and no prompt. */
export type RerankOptions = Pick<
  AnswerOptions,
  | 'escapeSpecialTokens'
  | 'truncate'
  | 'order'
  | 'rowTimeout'
  | 'reuse'
  | 'signal'
  | 'onProgress'
  | 'onStats'
  | 'onTrace'
  | 'now'
> & {
  /**
   * The instruction to Qwen3-Reranker about the documents that are looked for. Default `Given a web search query,
   * retrieve relevant passages that answer the query`.
   */
  readonly instruction?: string;
};

/** Options of one `score` call. */
export interface ScoreOptions extends AnswerOptions {
  /**
   * 1 to 1024 texts, none of them empty, or token ids, used as they are; a row may have `completions` of its own.
   * Default: every row has.
   */
  readonly completions?: readonly (string | readonly number[])[];
  /** The end token counts as the last of each completion. Default false. */
  readonly completionEnd?: boolean;
  /** Report each token's log-probability, too. Default false. */
  readonly tokenLogprobs?: boolean;
}

export const POOLINGS = ['auto', 'last', 'mean', 'cls', 'max', 'weightedmean'] as const;
export const EMBEDDING_ENCODINGS = ['float', 'base64'] as const;
/** The least and the most that embeddings have in each dimension, as a sample of them shows. */
export interface VectorRanges {
  readonly min: readonly number[];
  readonly max: readonly number[];
}

/** Options of one `embed` call. */
export interface EmbedOptions extends AnswerOptions, ChunkOptions {
  /**
   * Which hidden states after the model's final norm make the embedding: the last token's, the mean of all, the first
   * one's (`cls`), the largest of all in each dimension (`max`), the mean in which token i weighs i + 1
   * (`weightedmean`); `auto`, the default: what the model's files say (`1_Pooling/config.json`, GGUF's
   * `pooling_type`), else the last, or, of an encoder, the mean.
   */
  readonly pooling?: (typeof POOLINGS)[number];
  /**
   * Which of the texts that the model's files have goes before each row's prompt, by its name, such as `query` or
   * `document` (sentence-transformers' prompts). Not before `messages` and `tokens`. Default: the one that the files
   * name, mostly none.
   */
  readonly promptName?: string;
  /** Only the first ones, for models that were trained for it (Matryoshka). Default: all. */
  readonly dimensions?: number;
  /** To a length of 1, after the cut to `dimensions`. Default true. */
  readonly normalize?: boolean;
  /** Numbers; or their bytes, little-endian, in base64. Default `float`. */
  readonly encoding?: (typeof EMBEDDING_ENCODINGS)[number];
  /**
   * The type of the numbers, after `normalize`. `float32`, the default; `float16`, the nearest; `int8`: -127 to 127,
   * which times the result's `scale` are the vector's again, or, with `vectorRanges`, as sentence-transformers'
   * `quantize_embeddings` has it; `uint8`, with `vectorRanges` alone, likewise; `binary` and `ubinary`: a bit a
   * dimension, 1 above zero, eight a number, of int8 (less 128) or uint8, as there.
   */
  readonly vectorType?: VectorType;
  /** For `int8` and `uint8`: 256 steps from each dimension's `min` to its `max`, for all rows. Default: none. */
  readonly vectorRanges?: VectorRanges;
}

/** The members that each result has, whatever was asked. The result of a row that is an error has no more. */
export interface ResultBase extends Pick<RowResult, 'id' | 'index' | 'truncated' | 'carry'> {
  /** `completionTokens`: those of all labels or completions; 0 of an embedding. */
  readonly usage: RowResult['usage'];
  readonly error?: RowFailure;
}

/** The result of `classify` for one row. */
export interface ClassifyResult extends ResultBase, Partial<ClassifiedAnswer> {}

/** The result of `score` for one row. */
export interface ScoreResult extends ResultBase, Partial<ScoredAnswer> {}

/** The result of `rerank` for one row. */
export interface RerankResult extends ResultBase, Partial<RankedAnswer> {}

/** The embedding of a part of a row's own text. */
export interface EmbeddedChunk extends ChunkPlace, Partial<EmbeddedAnswer>, Pick<ResultBase, 'usage'> {}

/** The result of `embed` for one row. */
export interface EmbedResult extends ResultBase, Partial<EmbeddedAnswer> {
  /**
   * With `chunkTokens`: the embeddings of its parts, in the order of the text. A job's output has a row for each, with
   * the part's number as `chunk`.
   */
  readonly chunks?: readonly EmbeddedChunk[];
}

/** Whatever a job writes: what results of all kinds have in common, and what some have. */
export interface AnyResult
  extends
    ResultBase,
    Partial<Omit<RowResult, keyof ResultBase | 'chunks'>>,
    Partial<ClassifiedAnswer>,
    Partial<EmbeddedAnswer>,
    Partial<ChunkPlace> {
  readonly chunks?: readonly (RowChunk | EmbeddedChunk)[];
  /** The number of the part, from 0, and where it stands: for a row of an output that is a part's. */
  readonly chunk?: number;
  readonly scores?: ScoredAnswer['scores'] | RankedAnswer['scores'];
}

export const JOB_TASKS = ['generate', 'classify', 'score', 'rerank', 'embed'] as const;

/** The work a job does with its rows. */
export type JobTaskName = (typeof JOB_TASKS)[number];
