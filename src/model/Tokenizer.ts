/** Text to token ids and back, for one model. Built by `createTokenizer`. */
export interface Tokenizer {
  readonly vocabularySize: number;
  /** Put before a prompt by `encode` where the model asks for it; undefined where it has none. */
  readonly beginToken: number | undefined;
  /** Ids that end a row. Never empty unless the model declares none. */
  readonly endTokens: ReadonlySet<number>;
  readonly hasChatTemplate: boolean;

  /**
   * @param options.specialTokens add the begin token (and whatever the model's post-processor adds). Default true.
   * @param options.parseSpecial text such as `<|im_start|>` becomes the control token, as transformers does. Default true; false makes it data.
   */
  encode(text: string, options?: { specialTokens?: boolean; parseSpecial?: boolean }): number[];

  /** Text of ids; special tokens are left out unless asked for. `decode([])` is ''. */
  decode(tokens: readonly number[], options?: { skipSpecial?: boolean }): string;

  /**
   * A decoder for a stream of tokens: `push` returns the text that is final so far, holding back bytes of an unfinished
   * character; the concatenation over a row, with `end()`, equals `decode` of all its tokens.
   */
  stream(): { push(token: number): string; end(): string };

  /** Text of one token for humans (log-probabilities): `decode` of it alone, bytes that are no character as U+FFFD. */
  text(token: number): string;

  /** Renders messages through the model's chat template, with the generation prompt. @throws RowError 'chat-template' */
  renderChat(messages: readonly ChatMessage[]): string;

  /**
   * `renderChat` and `encode` in one, without a second begin token. With `parseSpecial: false` control text inside the messages'
   * content is data, while the template's own control tokens still work.
   */
  encodeChat(messages: readonly ChatMessage[], options?: { parseSpecial?: boolean }): number[];
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}
