import { RowError } from '../../errors/RowError.js';
import type { ChatMessage, ReasoningMarks, TemplateInput, Tokenizer } from '../Tokenizer.js';
import { AddedTokens, type AddedToken, type Section } from './AddedTokens.js';
import type { DecodeStage, Part } from './decoders.js';
import type { Guard } from './Guard.js';
import { LimitError } from './LimitError.js';
import { ROW_LIMITS } from '../files/limits.js';
import { sectionsOfChat } from './sectionsOfChat.js';
import { unitsOfChat } from './unitsOfChat.js';
import type { TokenizerParts } from './TokenizerParts.js';

const ANY = (): boolean => true;
/** Longer tokens are rare, and may cost as many steps at each place of a text. */
const ORDINARY_TOKEN = 1024;
const NOT_SPECIAL = (token: AddedToken): boolean => !token.special;

/** The tokenizer: added tokens, normalizer, pre-tokenizer, model and decoder in the order that the reference applies them. */
export class PartsTokenizer implements Tokenizer {
  readonly endTokens: ReadonlySet<number>;
  readonly reasoningMarks: ReasoningMarks | undefined;
  readonly #parts: TokenizerParts;
  /** Matched in the text as given, and in the normalized text. */
  readonly #verbatim: AddedTokens;
  readonly #normalized: AddedTokens;
  readonly #added: ReadonlyMap<number, AddedToken>;
  readonly #guard: Guard;
  /** Whether encoding is known to take time in proportion to the text. */
  readonly #linear: boolean;
  /** The control tokens alone, for conversations; made when first needed. */
  #control: AddedTokens | undefined;

  constructor(
    parts: TokenizerParts,
    readonly vocabularySize: number,
  ) {
    this.#parts = parts;
    this.endTokens = new Set(parts.endTokens.filter((id) => id < vocabularySize));
    this.reasoningMarks = parts.chatTemplate?.reasoningMarks;
    this.#added = new Map(parts.addedTokens.map((token) => [token.id, token]));
    this.#verbatim = new AddedTokens(parts.addedTokens.filter((token) => !token.normalized));
    this.#guard = parts.guard;
    const normalized = parts.addedTokens.filter((token) => token.normalized);
    const units = normalized.reduce((sum, { content }) => sum + content.length, 0);
    this.#normalized = parts.guard.load(units, () => new AddedTokens(normalized, (token) => parts.normalizer.normalize(token.content)));
    this.#linear = parts.normalizer.linear && parts.preTokenizer.linear && parts.tokens.every((token) => (token?.length ?? 0) <= ORDINARY_TOKEN);
  }

  get beginToken(): number | undefined {
    return this.#parts.beginToken;
  }

  get hasChatTemplate(): boolean {
    return this.#parts.chatTemplate !== undefined;
  }

  encode(text: string, options: { specialTokens?: boolean; parseSpecial?: boolean } = {}): number[] {
    const { prefix, suffix } = this.#parts;
    const specialTokens = options.specialTokens ?? true;
    const accept = (options.parseSpecial ?? true) ? ANY : NOT_SPECIAL;
    const out = this.#guard.row(text.length, this.#linear, () => {
      const tokens: number[] = specialTokens ? [...prefix] : [];
      this.#guard.field = 'added_tokens';
      this.#encodeSections(this.#verbatim.split(wellFormed(text), accept), accept, tokens);
      return tokens;
    });
    if (specialTokens) for (const id of suffix) out.push(id);
    return out;
  }

  #encodeSections(sections: readonly Section[], accept: (token: AddedToken) => boolean, out: number[]): void {
    for (const section of sections) {
      if ('token' in section) out.push(section.token.id);
      else this.#encodeText(section.text, section.start === 0, accept, out);
    }
  }

  /** @param first whether the text stands at the beginning of the row */
  #encodeText(text: string, first: boolean, accept: (token: AddedToken) => boolean, out: number[]): void {
    const { normalizer, preTokenizer, model } = this.#parts;
    const normalized = normalizer.normalize(text);
    for (const part of this.#normalized.size === 0 ? [{ text: normalized, start: 0 }] : this.#normalized.split(normalized, accept)) {
      if ('token' in part) out.push(part.token.id);
      else if (part.text !== '') {
        const pieces = preTokenizer.split(part.text, first && part.start === 0);
        this.#guard.field = 'model';
        for (const piece of pieces) model.encode(piece, out);
      }
    }
  }

  decode(tokens: readonly number[], options: { skipSpecial?: boolean } = {}): string {
    return this.#guard.row(tokens.length, this.#parts.decoder.linear, () => {
      const stream = new TokenStream(this.#parts, this.#added, (options.skipSpecial ?? true) ? NOT_SPECIAL : ANY);
      let text = '';
      for (const token of tokens) text += stream.push(token);
      return text + stream.end();
    });
  }

  stream(options: { reasoningMarks?: boolean } = {}): { push(token: number): string; end(): string } {
    const { start, end } = (options.reasoningMarks === true ? this.reasoningMarks : undefined) ?? {};
    return new TokenStream(this.#parts, this.#added, (token) => !token.special || token.content === start || token.content === end);
  }

  text(token: number): string {
    return this.decode([token], { skipSpecial: false });
  }

  renderChat(messages: readonly ChatMessage[], input?: TemplateInput): string {
    const template = this.#parts.chatTemplate;
    if (template === undefined) {
      throw new RowError('chat-template', 'found messages, but the model has no chat template: expected a row with prompt or tokens');
    }
    return template.render(messages, input);
  }

  encodeChat(messages: readonly ChatMessage[], { parseSpecial = true, tools, templateArgs }: TemplateInput & { parseSpecial?: boolean } = {}): number[] {
    const input = { tools, templateArgs };
    if (parseSpecial) return this.encode(this.renderChat(messages, input), { specialTokens: false });
    // Not under the clock of the rest: a template's failure to parse is to be remembered.
    const plain = this.renderChat(messages, input);
    return this.#guard.row(unitsOfChat(messages, input), false, () => this.#encodeAsData(messages, input, plain));
  }

  /** Encodes a conversation whose messages are data: of control tokens only the template's own count. */
  #encodeAsData(messages: readonly ChatMessage[], input: TemplateInput, plain: string): number[] {
    const out: number[] = [];
    const control = (this.#control ??= new AddedTokens(this.#parts.addedTokens.filter((token) => token.special)));
    for (const section of sectionsOfChat((marked) => this.renderChat(marked.messages, marked.input), { messages, input }, plain, control)) {
      if ('token' in section) out.push(section.token.id);
      else {
        // User-defined tokens still match in data; only the row's true beginning counts as such.
        const sections = this.#verbatim.split(wellFormed(section.text), NOT_SPECIAL);
        this.#encodeSections(
          sections.map((part) => ('token' in part ? part : { text: part.text, start: part.start + section.start })),
          NOT_SPECIAL,
          out,
        );
      }
    }
    return out;
  }
}

/** Half a surrogate pair is no character; UTF-8 encoders write U+FFFD for it, and the other paths must agree with them. */
function wellFormed(text: string): string {
  return /\p{Cs}/u.test(text) ? text.replace(/\p{Cs}/gu, '\ufffd') : text;
}

/** Text of a stream of tokens; the stages hold back what is not final. */
class TokenStream {
  readonly #parts: TokenizerParts;
  readonly #added: ReadonlyMap<number, AddedToken>;
  readonly #isText: (token: AddedToken) => boolean;
  readonly #stages: readonly DecodeStage[];
  #text = '';
  /** UTF-16 units that went in, that came out, and the most that may. */
  #given = 0;
  #made = 0;
  #most: number = ROW_LIMITS.answerUnits;

  /** @param isText which added tokens are text; the others are left out */
  constructor(parts: TokenizerParts, added: ReadonlyMap<number, AddedToken>, isText: (token: AddedToken) => boolean) {
    this.#parts = parts;
    this.#added = added;
    this.#isText = isText;
    this.#stages = parts.decoder.stages();
  }

  /** @throws RowError 'limit', also `end` */
  push(token: number): string {
    const added = this.#added.get(token);
    const text = added?.content ?? this.#parts.tokens[token];
    // An id without a token, as padded vocabularies have them, has no text.
    if (text === undefined || (added !== undefined && !this.#isText(added))) return '';
    this.#most += ROW_LIMITS.answerUnitsPerToken;
    const { guard, decoder } = this.#parts;
    const part = { text, verbatim: added !== undefined };
    guard.field = 'decoder';
    // Once a token: no closure where none is needed.
    try {
      this.#given += text.length;
      this.#check(this.#given);
      if (decoder.linear) this.#emit(0, part);
      else guard.run(text.length, () => this.#emit(0, part), true);
      return this.#take();
    } catch (error) {
      throw guard.rowError(error);
    }
  }

  end(): string {
    const { guard, decoder } = this.#parts;
    guard.field = 'decoder';
    const finish = (): string => {
      this.#stages.forEach((stage, i) => stage.end((part) => this.#emit(i + 1, part)));
      return this.#take();
    };
    return guard.row(this.#given, decoder.linear, finish, true);
  }

  #take(): string {
    const text = this.#text;
    this.#text = '';
    this.#made += text.length;
    this.#check(this.#made);
    return text;
  }

  #check(units: number): void {
    if (units > this.#most) throw new LimitError('decoder', `an answer of ${units} UTF-16 units`, `at most ${this.#most} for its tokens`);
  }

  #emit(stage: number, part: Part): void {
    const next = this.#stages[stage];
    if (next === undefined) this.#text += part.text;
    else next.push(part, (emitted) => this.#emit(stage + 1, emitted));
  }
}
