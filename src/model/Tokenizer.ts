import type { Work } from '../collections/drained.js';

/** Text to token ids and back, for one model. Built by `createTokenizer`. */
export interface Tokenizer {
  readonly vocabularySize: number;
  /** Put before a prompt by `encode` where the model asks for it; undefined where it has none. */
  readonly beginToken: number | undefined;
  /** Ids that end a row. Never empty unless the model declares none. */
  readonly endTokens: ReadonlySet<number>;
  readonly hasChatTemplate: boolean;
  /** The id of a control token by its text, such as `<|im_end|>`; undefined for any other text. */
  controlToken(text: string): number | undefined;
  /** The marks that the chat template puts round a model's reasoning; undefined where it marks none. */
  readonly reasoningMarks?: ReasoningMarks | undefined;
  /** The chat template of rows with tools, as it is written; undefined where there is none. */
  readonly toolTemplate?: string | undefined;

  /** How many special tokens `encode` puts after a prompt. Default: none. */
  readonly suffixTokens?: number;

  encode(text: string, options?: EncodeOptions): number[];

  /** `encode`: at once for a short text, stopping on its way through a long one. */
  encodeInParts(text: string, options?: EncodeOptions): number[] | Work<number[]>;

  /** Text of ids; special tokens are left out unless asked for. `decode([])` is ''. */
  decode(tokens: readonly number[], options?: { skipSpecial?: boolean }): string;

  /**
   * A decoder for a stream of tokens: `push` returns the text that is final so far, holding back bytes of an unfinished
   * character; the concatenation over a row, with `end()`, equals `decode` of all its tokens.
   * @param options.reasoningMarks special tokens that mark reasoning are text. Default false
   * @param options.markers special tokens that are text, too. Default none
   */
  stream(options?: { reasoningMarks?: boolean; markers?: ReadonlySet<string> }): {
    push(token: number): string;
    end(): string;
  };

  /**
   * The bytes that a token adds to a row's text, which `stream` makes: to its beginning, where that is something else
   * (a blank is dropped there), or to what has gone before. None for special tokens and ids without a token. Undefined
   * where the text is not put together of tokens, each by itself: what the decoder does depends on more.
   */
  readonly answerBytes?: ((token: number, first: boolean) => Uint8Array) | undefined;

  /**
   * Two texts, as tokens without special ones, as the model takes a pair of them; and where the second one begins, to a
   * model that tells them apart. Undefined where the model's files do not say how.
   */
  readonly joinPair?:
    ((first: readonly number[], second: readonly number[]) => { tokens: number[]; secondText?: number }) | undefined;

  /** Text of one token for humans (log-probabilities): `decode` of it alone, bytes that are no character as U+FFFD. */
  text(token: number): string;

  /**
   * Renders messages through the model's chat template, with the generation prompt. @throws RowError 'chat-template'
   */
  renderChat(messages: readonly ChatMessage[], input?: TemplateInput): string;

  /**
   * `renderChat` and `encode` in one, without a second begin token. With `parseSpecial: false` control text inside the
   * messages' content (and in what else the template is given) is data, while the template's own control tokens still
   * work.
   */
  encodeChat(messages: readonly ChatMessage[], options?: TemplateInput & { parseSpecial?: boolean }): number[];

  /** `encodeChat`, stopping on its way: it waits for a template that takes more than a turn of the event loop. */
  encodeChatInParts(
    messages: readonly ChatMessage[],
    options?: TemplateInput & Pick<EncodeOptions, 'parseSpecial' | 'surplus'>,
  ): Work<number[]>;
}

export interface EncodeOptions {
  /** Add the begin token (and whatever the model's post-processor adds). Default true. */
  readonly specialTokens?: boolean;
  /**
   * Text such as `<|im_start|>` becomes the control token, as transformers does. Default true; false makes it data.
   */
  readonly parseSpecial?: boolean;
  /**
   * The text goes on where another one ended: nothing that marks a text's beginning, such as SentencePiece's blank, is
   * put before it. Default false.
   */
  readonly continues?: boolean;
  /** Where it is counted how many ids a long text has that are not kept. Default: all are kept. */
  readonly surplus?: Surplus;
}

/** Ids of a text beyond those that anybody needs: there may be millions, of which it only matters how many. */
export interface Surplus {
  /** So many ids, the first ones, are kept at least; those that `suffixTokens` counts come after what is kept. */
  readonly after: number;
  /** How many were left out. */
  count: number;
}

/** A message as chat templates know it: beside role and text what OpenAI's calls of tools have, under their names. */
export interface ChatMessage {
  readonly role: string;
  /** A text, or parts of one as OpenAI writes them: `{type: 'text', text}`. Null where calls stand in its place. */
  readonly content: string | readonly unknown[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly unknown[];
  readonly tool_call_id?: string;
  /** Thoughts from before; under any of these names templates find them under all. */
  readonly reasoning_content?: string;
  readonly reasoning?: string;
  readonly thinking?: string;
}

/** The input that a chat template is given beside messages: plain JSON data. */
export interface TemplateInput {
  /** Descriptions of tools, as OpenAI writes them: `{type: 'function', function: {name, description, parameters}}`. */
  readonly tools?: readonly unknown[] | undefined;
  /** Variables that it may use, e.g. `{ enable_thinking: false }`. */
  readonly templateArgs?: Readonly<Record<string, unknown>> | undefined;
  /**
   * The time that a template is told which asks for it, as a date or how ISO 8601 writes it. Default: when the run
   * begins; of a job that is gone on with, when that began. Null: a template that asks for it is refused, as in one of
   * several shards, which do not begin at once.
   */
  readonly now?: Date | string | null | undefined;
}

/** Texts between which a model reasons. */
export interface ReasoningMarks {
  readonly start: string;
  readonly end: string;
}
