import { RowError } from '../../errors/RowError.js';
import type { ChatMessage, Tokenizer } from '../Tokenizer.js';
import { AddedTokens, type AddedToken, type Section } from './AddedTokens.js';
import type { DecodeStage, Part } from './decoders.js';
import { sectionsOfChat } from './sectionsOfChat.js';
import type { TokenizerParts } from './TokenizerParts.js';
import { Watchdog, WATCHDOG_MILLISECONDS, WatchdogTimeout } from './Watchdog.js';

const ANY = (): boolean => true;
const NOT_SPECIAL = (token: AddedToken): boolean => !token.special;

/** The tokenizer: added tokens, normalizer, pre-tokenizer, model and decoder in the order that the reference applies them. */
export class PartsTokenizer implements Tokenizer {
  readonly endTokens: ReadonlySet<number>;
  readonly #parts: TokenizerParts;
  /** Matched in the text as given, and in the normalized text. */
  readonly #verbatim: AddedTokens;
  readonly #normalized: AddedTokens;
  readonly #added: ReadonlyMap<number, AddedToken>;
  readonly #watchdog = new Watchdog();

  constructor(
    parts: TokenizerParts,
    readonly vocabularySize: number,
  ) {
    this.#parts = parts;
    this.endTokens = new Set(parts.endTokens.filter((id) => id < vocabularySize));
    this.#added = new Map(parts.addedTokens.map((token) => [token.id, token]));
    this.#verbatim = new AddedTokens(parts.addedTokens.filter((token) => !token.normalized));
    this.#normalized = new AddedTokens(
      parts.addedTokens.filter((token) => token.normalized),
      (token) => parts.normalizer.normalize(token.content),
    );
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
    const out: number[] = specialTokens ? [...prefix] : [];
    const accept = (options.parseSpecial ?? true) ? ANY : NOT_SPECIAL;
    this.#encodeSections(this.#verbatim.split(wellFormed(text), accept), accept, out);
    if (specialTokens) for (const id of suffix) out.push(id);
    return out;
  }

  #encodeSections(sections: readonly Section[], accept: (token: AddedToken) => boolean, out: number[]): void {
    const { fields, normalizer, preTokenizer } = this.#parts;
    const work = (): void => {
      for (const section of sections) {
        if ('token' in section) out.push(section.token.id);
        else this.#encodeText(section.text, section.start === 0, accept, out);
      }
    };
    if (normalizer.linear && preTokenizer.linear) {
      work();
      return;
    }
    try {
      this.#watchdog.run(work);
    } catch (error) {
      if (!(error instanceof WatchdogTimeout)) throw error;
      fields.refuse('pre_tokenizer', `a pattern that works on one row for more than ${WATCHDOG_MILLISECONDS} ms`, 'one that takes time in proportion to the row', error);
    }
  }

  /** @param first whether the text stands at the beginning of the row */
  #encodeText(text: string, first: boolean, accept: (token: AddedToken) => boolean, out: number[]): void {
    const { normalizer, preTokenizer, model } = this.#parts;
    const normalized = normalizer.normalize(text);
    for (const part of this.#normalized.size === 0 ? [{ text: normalized, start: 0 }] : this.#normalized.split(normalized, accept)) {
      if ('token' in part) out.push(part.token.id);
      else if (part.text !== '') for (const piece of preTokenizer.split(part.text, first && part.start === 0)) model.encode(piece, out);
    }
  }

  decode(tokens: readonly number[], options: { skipSpecial?: boolean } = {}): string {
    const stream = new TokenStream(this.#parts, this.#added, options.skipSpecial ?? true);
    let text = '';
    for (const token of tokens) text += stream.push(token);
    return text + stream.end();
  }

  stream(): { push(token: number): string; end(): string } {
    return new TokenStream(this.#parts, this.#added, true);
  }

  text(token: number): string {
    return this.decode([token], { skipSpecial: false });
  }

  renderChat(messages: readonly ChatMessage[]): string {
    const template = this.#parts.chatTemplate;
    if (template === undefined) {
      throw new RowError('chat-template', 'found messages, but the model has no chat template: expected a row with prompt or tokens');
    }
    return template.render(messages);
  }

  encodeChat(messages: readonly ChatMessage[], options: { parseSpecial?: boolean } = {}): number[] {
    if (options.parseSpecial ?? true) return this.encode(this.renderChat(messages), { specialTokens: false });
    const control = this.#parts.addedTokens.filter((token) => token.special);
    const out: number[] = [];
    for (const section of sectionsOfChat((marked) => this.renderChat(marked), messages, control)) {
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
  readonly #skipSpecial: boolean;
  readonly #stages: readonly DecodeStage[];
  #text = '';

  constructor(parts: TokenizerParts, added: ReadonlyMap<number, AddedToken>, skipSpecial: boolean) {
    this.#parts = parts;
    this.#added = added;
    this.#skipSpecial = skipSpecial;
    this.#stages = parts.decoder();
  }

  push(token: number): string {
    const added = this.#added.get(token);
    const text = added?.content ?? this.#parts.tokens[token];
    // An id without a token, as padded vocabularies have them, has no text.
    if (text === undefined || (this.#skipSpecial && added?.special === true)) return '';
    this.#emit(0, { text, verbatim: added !== undefined });
    return this.#take();
  }

  end(): string {
    this.#stages.forEach((stage, i) => stage.end((part) => this.#emit(i + 1, part)));
    return this.#take();
  }

  #emit(stage: number, part: Part): void {
    const next = this.#stages[stage];
    if (next === undefined) this.#text += part.text;
    else next.push(part, (emitted) => this.#emit(stage + 1, emitted));
  }

  #take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }
}
