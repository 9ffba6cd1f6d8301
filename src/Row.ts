import type { RowErrorCode } from './errors/RowError.js';
import type { AnswerStore, GeneratedAnswer } from './KeptAnswer.js';
import type { Progress, RunStats, TraceEvent } from './RunStats.js';
import type { ChunkOptions, ChunkPlace, MergedParts } from './rows/chunks.js';
import type { Question } from './rows/questions.js';
import type { ResponseFormat } from './rows/responseFormat.js';
import type { ChatMessage, TemplateInput } from './model/Tokenizer.js';
import type { ToolCall, ToolCallDelta, ToolChoice } from './rows/toolCalls.js';

/** How tokens are chosen. A row may override each of these for itself. */
export interface SamplingOptions {
  /** Most new tokens. Default 128. */
  readonly maxNewTokens?: number;
  /** 0 is greedy, the default. */
  readonly temperature?: number;
  /** Keep the most likely tokens up to this cumulative probability, in (0, 1]. Default 1: all. */
  readonly topP?: number;
  /** Keep this many of the most likely tokens. Default 0: all. */
  readonly topK?: number;
  /** Keep tokens at least this fraction as likely as the best one, in [0, 1]. Default 0: all. */
  readonly minP?: number;
  /** Divides positive and multiplies negative logits of tokens that the row has already. Default 1: off. */
  readonly repetitionPenalty?: number;
  /**
   * Is taken from the logit of each token that the row has generated, from -2 to 2, as OpenAI has it. Default 0: off.
   */
  readonly presencePenalty?: number;
  /** Is taken likewise, for each time that the row has generated the token, from -2 to 2. Default 0: off. */
  readonly frequencyPenalty?: number;
  /** No token ends the row before it has so many new ones, unless a stop string does. Default 0. */
  readonly minNewTokens?: number;
  /** Is added to the logits of these tokens, from -100 to 100 each, by id: `{ 50256: -100 }`. Default: nothing. */
  readonly logitBias?: Readonly<Record<string, number>>;
  /** Tokens that end the row as its end token does, with `ignoreEos`, too. Default none. */
  readonly stopTokenIds?: readonly number[];
  /**
   * Texts that do not come: the last token of each is not chosen after its others, whether a blank stands before the
   * text or not. Other spellings, and tokens that go on beyond the text, are other texts. Default none.
   */
  readonly badWords?: readonly string[];
  /** The row's random numbers depend on the seed and the token's position alone. Default 0. */
  readonly seed?: number;
  /**
   * The row ends before the first of these strings; it may straddle tokens. One that is a control token of the model,
   * such as `<|im_end|>`, is found by its id. Default none.
   */
  readonly stop?: readonly string[];
  /**
   * So many answers to the one prompt, each a result of its own that says which `sample` it is, from 0: sample k is
   * what the row would answer with k added to its `seed`. Default: one, which says no `sample`.
   */
  readonly samples?: number;
  /**
   * How often a row whose answer fails its `responseFormat` or `schema` is tried again, at most: attempt k, from 1,
   * adds k to the seed and is sampled at `retryTemperature`. Where the prompt is text, and there is room for it, the
   * model is told its last answer and what was wrong with it. The result says how many `attempts` there were; its
   * tokens are the last one's. Default 0: the row is an error.
   */
  readonly retries?: number;
  /** The temperature of further attempts, whatever that of the first one. Default 0.7. */
  readonly retryTemperature?: number;
}

/** Tools that an answer may call. A row may override each of these for itself. */
export interface ToolOptions extends Pick<TemplateInput, 'tools'> {
  /**
   * The choice whether answers call tools: as the model will (`auto`), with one call at least (`required`), a call of
   * one function (`{ type: 'function', function: { name } }`), among some of them (`{ type: 'allowed_tools',
   * allowed_tools: { mode, tools } }`), or not at all, and then the model is not told of them (`none`). Default `auto`
   * where there are tools. Calls are held to the tools' parameters, in the form of the model's own chat template; where
   * that is none that is known, `auto` is an error.
   */
  readonly toolChoice?: ToolChoice;
  /** True if an answer may have several calls, where the model's form of calls has room for them. Default true. */
  readonly parallelToolCalls?: boolean;
}

export const TRUNCATIONS = ['off', 'head', 'tail', 'middle'] as const;
/** The part that is cut of a prompt that is too long: nothing, its beginning, its end, or its middle. */
export type Truncation = (typeof TRUNCATIONS)[number];

/** How prompts are made of rows. */
export interface PromptOptions extends TemplateInput {
  /**
   * Text such as `<|im_start|>` inside a row is data, not a control token. Default false: it is parsed, as transformers
   * does.
   */
  readonly escapeSpecialTokens?: boolean;
  /**
   * The prompt of each row is this text, with `{{field}}` for a value of the row's `fields`. A row that lacks one, or
   * has null there, is an error; with `{{field?}}` it is empty text, with `{{field:default}}` that default. `{{{{` is
   * the text `{{`. Default: rows have prompts.
   */
  readonly promptTemplate?: string;
  /**
   * Goes before the messages of each row that has no system message of its own. Raw text (`chat: false`) has no
   * messages. Default none.
   */
  readonly system?: string;
  /**
   * True where a row's `prompt`, or what `promptTemplate` makes, is a user's message that goes through the model's chat
   * template, instead of raw text. Default: true with `system`; without, false, but for lines of text (`readRows` with
   * format `text`): for them true where the model has a template.
   */
  readonly chat?: boolean;
  /**
   * The part that is cut of a prompt with more tokens than the model's context holds: the beginning (`head`), the end
   * (`tail`) or the middle, both ends staying, of the row's own text: its `tokens`, its `prompt`, the longest field of
   * the template (then the next), or the last user message; never the template's text, or other messages. Room is left
   * for the row's `maxNewTokens`, at most half of the context. The result says how many tokens were cut. Default `off`:
   * such a row is an error.
   */
  readonly truncate?: Truncation;
}

/** Exactly one of `prompt`, `messages` and `tokens`, or the `fields` that a `promptTemplate` asks for. */
export type RowPrompt =
  | {
      /** Text: as it is, or a user's message, see `chat`. */
      readonly prompt: string;
      readonly messages?: undefined;
      readonly tokens?: undefined;
      readonly fields?: undefined;
      /**
       * True where `prompt` is a user's message; `auto`, where the run does not say: if the model has a chat template.
       * Default: what the run says.
       */
      readonly chat?: boolean | 'auto';
    }
  | {
      /** A conversation, rendered through the model's chat template. */
      readonly messages: readonly ChatMessage[];
      readonly prompt?: undefined;
      readonly tokens?: undefined;
      readonly fields?: undefined;
    }
  | {
      /** Token ids, used as they are. */
      readonly tokens: readonly number[];
      readonly prompt?: undefined;
      readonly messages?: undefined;
      readonly fields?: undefined;
    }
  | {
      /** The values that the run's `promptTemplate` takes; for a row with a `prompt`, its id and that prompt. */
      readonly fields: Readonly<Record<string, unknown>>;
      readonly prompt?: undefined;
      readonly messages?: undefined;
      readonly tokens?: undefined;
      /** True where the template's text is a user's message, likewise. */
      readonly chat?: boolean | 'auto';
    }
  | {
      /** The query that `rerank` ranks the row's `documents`, or its `document`, by. */
      readonly query: string;
      readonly prompt?: undefined;
      readonly messages?: undefined;
      readonly tokens?: undefined;
      readonly fields?: undefined;
      readonly chat?: undefined;
    };

/** A label by which `classify` tells rows apart: a text, which is its own name, or one that results call otherwise. */
export type Label = string | { readonly name: string; readonly text: string };

/** One prompt. */
export type Row = RowSettings & RowPrompt;

/**
 * The settings that a row may have beside its prompt. `tools` and `templateArgs` are for its chat template; variables
 * of the run's stay where it sets no other.
 */
export interface RowSettings extends SamplingOptions, ToolOptions, Omit<TemplateInput, 'now'> {
  /** Default: the row's number in the input, from 1, which a row that was given it may have too. */
  readonly id?: string | number;
  /** The row's number in its job, from 0, where that is not its number in this input (a resumed job). */
  readonly index?: number;
  /**
   * True where an earlier row has this row's id. Default: it is found out, among the rows of this input that were given
   * an id. False where nobody gave the id, so that it may be another row's too (`readRows`); a job, which knows the
   * rows of earlier runs, says it of each.
   */
  readonly duplicate?: boolean;
  /** The labels that `classify` tells apart, instead of the run's `labels`. */
  readonly labels?: readonly Label[];
  /** The texts that `score` scores, instead of the run's `completions`. */
  readonly completions?: readonly (string | readonly number[])[];
  /** The texts that `rerank` ranks: 1 to 1024, or one. */
  readonly query?: string;
  readonly documents?: readonly string[];
  readonly document?: string;
  /** How many dimensions `embed` keeps, instead of the run's. */
  readonly dimensions?: number;
  /** Which of its samples are wanted, where not all are (a resumed job). Default: all. */
  readonly wantedSamples?: readonly number[];
  /** The format its answer is held to. Default: what the run says. */
  readonly responseFormat?: ResponseFormat;
  /** Carried into the result; a line of a job's output calls it `row`. */
  readonly carry?: Readonly<Record<string, unknown>>;
}

/**
 * A row that is bad before it reaches the engine (a line that is no JSON, say): its result carries the error, the
 * others are unaffected.
 */
export interface BadRow {
  readonly id?: string | number;
  readonly index?: number;
  readonly duplicate?: boolean;
  readonly error: RowFailure;
  readonly carry?: Readonly<Record<string, unknown>>;
}

export interface RowFailure {
  readonly code: RowErrorCode;
  readonly message: string;
}

export type RowInput = Row | BadRow;

export type FinishReason = GeneratedAnswer['finishReason'] | 'tool_calls' | 'error';

/** The answer to one of a row's questions. */
export interface QuestionAnswer extends Pick<
  RowResult,
  'text' | 'value' | 'reasoning' | 'finishReason' | 'attempts' | 'confidence' | 'leastConfidence' | 'fieldConfidence'
> {
  readonly error?: RowFailure;
}

/** The answer to a part of a row's own text. */
export interface RowChunk
  extends ChunkPlace, Omit<RowResult, 'id' | 'index' | 'sample' | 'answers' | 'chunks' | 'parts' | 'carry'> {}

/** The result of one row: a line of a job's output. */
export interface RowResult<Value = unknown> extends Omit<GeneratedAnswer, 'finishReason'> {
  readonly id: string | number;
  /** The row's number in the input, from 0; bad rows count. */
  readonly index: number;
  /**
   * Which of the row's answers it is, from 0, where `samples` was asked for; a row that was refused has one result,
   * without.
   */
  readonly sample?: number;
  /**
   * The meaning of the text of an answer that is held to a format: the parsed JSON, or for other formats the text. Not
   * there without a format, and with an error.
   */
  readonly value?: Value;
  /**
   * Where `questions` were asked, their answers by name; `text` is empty then, `confidence` the least of the answers',
   * and `error` that of the first question that failed.
   */
  readonly answers?: Readonly<Record<string, QuestionAnswer>>;
  /**
   * Where the row's own text was computed in parts (`chunkTokens`) and nothing merged their answers: these, in the
   * order of the text; `text` is empty then. A job's output has a row for each, with the part's number as `chunk`.
   */
  readonly chunks?: readonly RowChunk[];
  /** Where answers of parts were merged: of how many parts, in how many levels. */
  readonly parts?: MergedParts;
  /** The tools that the answer calls, as OpenAI has them; `text` is what it says beside. */
  readonly toolCalls?: readonly ToolCall[];
  readonly finishReason: FinishReason;
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number };
  /** Tokens that were cut of its prompt (`truncate`); of text far beyond the context, as counted in pieces. */
  readonly truncated?: number;
  readonly error?: RowFailure;
  /** The model of a cascade that answered. */
  readonly model?: string;
  /** The row's own. */
  readonly carry?: Readonly<Record<string, unknown>>;
}

export const REASONING = ['keep', 'separate', 'drop'] as const;
export type Reasoning = (typeof REASONING)[number];

/** Options of one `generate` call; the sampling options are defaults for its rows. */
export interface GenerateOptions extends SamplingOptions, ToolOptions, PromptOptions, ChunkOptions {
  /** The format that the answers of rows that bring none are held to. Default: nothing. */
  readonly responseFormat?: ResponseFormat;
  /**
   * True where the model is told what its answer is held to, a JSON Schema or choices: at the end of the system
   * message, or as one; before raw text. Rows of tokens stay as they are. Default false.
   */
  readonly schemaInPrompt?: boolean;
  /**
   * The questions asked about each row, in the place of one answer to its prompt: each question's text goes after the
   * row's own, with an empty line between; in a conversation at the end of its last message, if that is the user's,
   * else as one. The row's own text is computed once. A row's result has `answers`. Default: none.
   */
  readonly questions?: readonly Question[];
  /**
   * Beside `chunkTokens`: what the model is told so that it makes one answer of those of a row's parts. They go in the
   * place of `{{answers}}`, else after the text, with an empty line between each two; other fields are the row's, as in
   * `promptTemplate`. Where the context has no room for all of them, as many as it has room for become one, then these,
   * and so on. What answers are held to, merged ones are, too. Default: a row's result has the answers of its parts.
   */
  readonly merge?: string;
  /** Go on past the end token, to `maxNewTokens`. Default false. */
  readonly ignoreEos?: boolean;
  /**
   * Seconds that a row may take from when it is admitted, looked at with each of its tokens: then it ends as an error
   * row `timeout`. One whose answer is whole by then has it: an answer of one token, and an embedding, are never late.
   * Equal rows that wait for a row's answer share its end, however long they have waited. What comes of that depends on
   * the machine and on other rows, is not the same twice, and is never kept for `reuse`. Default: any.
   */
  readonly rowTimeout?: number;
  /**
   * Say of each answer how sure the model was: `confidence`, `leastConfidence` and, of JSON objects, `fieldConfidence`.
   * Default false; with `questions` true.
   */
  readonly confidence?: boolean;
  /** Report the log-probability of each token, and of this many alternatives. Default: none. */
  readonly logprobs?: number;
  /**
   * The treatment of a model's reasoning, where its chat template marks it (`<think>`…`</think>`): it stays in the text
   * (the default), is a part of the result of its own, or is left out. White space round it goes with it; an answer
   * that ends before its reasoning does has no text.
   */
  readonly reasoning?: Reasoning;
  /**
   * Results in order of input (the default; finished rows wait for earlier ones, some thousand of them at most, but not
   * beyond a failure or an abort) or of completion.
   */
  readonly order?: 'input' | 'completion';
  /**
   * Answers that last: rows that are there are not computed, and what is computed goes there, but for errors. It stays
   * open. Default none.
   */
  readonly reuse?: AnswerStore;
  /**
   * Ends the run: no row is admitted, running ones are dropped, the iteration throws InterruptedError after the rows
   * that were finished.
   */
  readonly signal?: AbortSignal;
  /**
   * Called at most ten times a second, and once at the end. What this or another callback throws, or rejects with where
   * it is asynchronous, fails the run: the iteration throws it, and does not end before they have.
   */
  readonly onProgress?: (progress: Progress) => void;
  /** Called once, when the run has ended, in whatever way. */
  readonly onStats?: (stats: RunStats) => void;
  /**
   * Called with every event of the trace, in order of completion; the format is Chrome's (Perfetto opens a file of
   * them).
   */
  readonly onTrace?: (event: TraceEvent) => void;
  /**
   * Called with what each row's answer grows by, as it grows, in the order in which it does, whatever the order of
   * results.
   */
  readonly onDelta?: (delta: RowDelta) => void;
}

/**
 * The part by which a row's answer has grown. All deltas of a row, put together, are its result's text, reasoning, tool
 * calls and tokens: nothing is taken back, and none ends within a character, or where a stop string may begin. A row
 * that needs no computing, for its answer is another row's, has one delta; so has one that may be tried again, and one
 * of choices. (An error may follow deltas, such as `timeout`, or `schema` of a row with tools: their text counts for
 * nothing then.)
 */
export interface RowDelta extends Pick<RowResult, 'id' | 'index' | 'sample' | 'text' | 'tokens'> {
  /** Where the options ask for it apart (`reasoning: 'separate'`), and some has come. */
  readonly reasoning?: string;
  /** The calls that have begun, or whose arguments have grown, in their order. */
  readonly toolCalls?: readonly ToolCallDelta[];
}
