import { drained, type Work, valueOf } from '../../collections/drained.js';
import { RowError } from '../../errors/RowError.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import type { ChatMessage, EncodeOptions, ReasoningMarks, Surplus, TemplateInput, Tokenizer } from '../Tokenizer.js';
import { type AddedToken, AddedTokens, type Section } from './AddedTokens.js';
import { type ChatTemplate, unitsOfChat } from './ChatTemplate.js';
import type { Decoder } from './decoders.js';
import { checkGrowth, LimitError } from './growth.js';
import type { Guard } from './Guard.js';
import type { Normalizer } from './Normalizer.js';
import { PART_UNITS, rewritten } from './parts.js';
import type { Place, PreTokenizer } from './PreTokenizer.js';
import { type Chat, type RenderChat, sectionsOfChat } from './sectionsOfChat.js';
import type { PairSurroundings } from './postProcessor.js';
import { allOf } from './split.js';
import type { TokenModel } from './TokenModel.js';
import { TokenStream } from './TokenStream.js';

/** The parts that a tokenizer is put together from, whichever format it was read from. */
export interface TokenizerParts {
  /** The guard under which all that the files bring as pattern or program runs. */
  readonly guard: Guard;
  /** Id to token; ids may have gaps. */
  readonly tokens: readonly (string | undefined)[];
  readonly addedTokens: readonly AddedToken[];
  readonly normalizer: Normalizer;
  readonly preTokenizer: PreTokenizer;
  readonly model: TokenModel;
  readonly decoder: Decoder;
  /** Ids put before and after every prompt. */
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
  /** And round a pair of texts, where it is said. */
  readonly pair?: PairSurroundings | undefined;
  readonly beginToken: number | undefined;
  readonly endTokens: readonly number[];
  readonly chatTemplate: ChatTemplate | undefined;
}

type ChatOptions = TemplateInput & Pick<EncodeOptions, 'parseSpecial' | 'surplus'>;

const ANY = (): boolean => true;
/** Units that take as long as a token that is found, or a short text between two. */
const SECTION_UNITS = 32;
const NOT_SPECIAL = (token: AddedToken): boolean => !token.special;

/**
 * The tokenizer: added tokens, normalizer, pre-tokenizer, model and decoder in the order that the reference applies
 * them.
 */
export class PartsTokenizer implements Tokenizer {
  readonly endTokens: ReadonlySet<number>;
  readonly reasoningMarks: ReasoningMarks | undefined;
  readonly #parts: TokenizerParts;
  /** Matched in the text as given, and in the normalized text. */
  readonly #verbatim: AddedTokens;
  readonly #normalized: AddedTokens;
  readonly #added: ReadonlyMap<number, AddedToken>;
  readonly #guard: Guard;
  /** The control tokens alone, for conversations; made when first needed. */
  #control: AddedTokens | undefined;
  /** The control tokens' ids by their texts; made when first needed. */
  #controlIds: ReadonlyMap<string, number> | undefined;

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
    this.#normalized = parts.guard.load(units, () => new AddedTokens(normalized, normalizedContent(parts.normalizer)));
  }

  get beginToken(): number | undefined {
    return this.#parts.beginToken;
  }

  get suffixTokens(): number {
    return this.#parts.suffix.length;
  }

  controlToken(text: string): number | undefined {
    this.#controlIds ??= new Map(
      this.#parts.addedTokens.filter((token) => token.special).map((token) => [token.content, token.id]),
    );
    return this.#controlIds.get(text);
  }

  get hasChatTemplate(): boolean {
    return this.#parts.chatTemplate !== undefined;
  }

  encode(text: string, options?: EncodeOptions): number[] {
    return valueOf(this.encodeInParts(text, options));
  }

  encodeInParts(text: string, options: EncodeOptions = {}): number[] | Work<number[]> {
    const { prefix, suffix } = this.#parts;
    const specialTokens = options.specialTokens ?? true;
    const encoding: Encoding = {
      accept: (options.parseSpecial ?? true) ? ANY : NOT_SPECIAL,
      begins: options.continues === true ? 'continues' : 'first',
      out: specialTokens ? [...prefix] : [],
      surplus: options.surplus,
      units: text.length,
      normalized: 0,
    };
    const end = specialTokens ? suffix : [];
    if (text.length > PART_UNITS) return this.#guard.rowInParts(text.length, this.#encodeLong(text, encoding, end));
    return this.#guard.row(text.length, () => {
      this.#guard.field = 'added_tokens';
      for (const section of this.#verbatim.split(wellFormed(text), encoding.accept))
        this.#encodeSection(section, encoding);
      for (const id of end) encoding.out.push(id);
      return encoding.out;
    });
  }

  *#encodeLong(given: string, encoding: Encoding, end: readonly number[]): Work<number[]> {
    this.#guard.field = 'added_tokens';
    const made = rewritten(given, wellFormed);
    const text = typeof made === 'string' ? made : yield* made;
    const sections = yield* this.#verbatim.splitInParts(text, encoding.accept);
    yield* counted(this.#encodeSections(sections, encoding), encoding);
    for (const id of end) encoding.out.push(id);
    return encoding.out;
  }

  /** @param from where the text that they are of begins */
  *#encodeSections(sections: readonly Section[], encoding: Encoding, from = 0): Work<void> {
    let worked = 0;
    for (const section of sections) {
      // A section has its own price, however short it is.
      worked += SECTION_UNITS;
      if ('text' in section && section.text.length > PART_UNITS) yield* this.#encodeLongText(section, encoding, from);
      else worked += this.#encodeSection(section, encoding, from);
      if (worked < PART_UNITS) continue;
      worked = 0;
      yield;
    }
  }

  /** @returns its units */
  #encodeSection(section: Section, encoding: Encoding, from = 0): number {
    if ('token' in section) {
      encoding.out.push(section.token.id);
      return 0;
    }
    const { normalizer, preTokenizer, model } = this.#parts;
    const { accept, out } = encoding;
    const place = from + section.start === 0 ? encoding.begins : 'within';
    const normalized = valueOf(normalizer.normalize(section.text, place === 'continues'));
    countNormalized(encoding, normalized);
    for (const part of this.#normalized.size === 0
      ? [{ text: normalized, start: 0 }]
      : this.#normalized.split(normalized, accept)) {
      if ('token' in part) out.push(part.token.id);
      else if (part.text !== '') {
        const pieces = allOf(preTokenizer.split(part.text, part.start === 0 ? place : 'within'));
        this.#guard.field = 'model';
        for (const piece of pieces) model.encode(piece, out);
      }
    }
    return normalized.length;
  }

  *#encodeLongText(
    { text, start }: { readonly text: string; readonly start: number },
    encoding: Encoding,
    from: number,
  ): Work<void> {
    const { normalizer, preTokenizer } = this.#parts;
    const { accept, out } = encoding;
    const place = from + start === 0 ? encoding.begins : 'within';
    const made = normalizer.normalize(text, place === 'continues');
    const normalized = typeof made === 'string' ? made : yield* made;
    countNormalized(encoding, normalized);
    const parts =
      this.#normalized.size === 0
        ? [{ text: normalized, start: 0 }]
        : yield* this.#normalized.splitInParts(normalized, accept);
    for (const part of parts) {
      yield;
      if ('token' in part) out.push(part.token.id);
      else if (part.text !== '') {
        const cut = preTokenizer.split(part.text, part.start === 0 ? place : 'within');
        for (const pieces of 'next' in cut ? cut : [cut]) {
          yield;
          const { field } = this.#guard;
          this.#guard.field = 'model';
          yield* this.#encodeAll(pieces ?? [], out);
          // Cutting goes on.
          this.#guard.field = field;
        }
      }
    }
  }

  *#encodeAll(pieces: readonly string[], out: number[]): Work<void> {
    for (let at = 0; at < pieces.length;) {
      if (at > 0) yield;
      at = this.#encodePieces(pieces, at, out);
      const long = pieces[at];
      if (long === undefined || long.length <= PART_UNITS) continue;
      yield* this.#parts.model.encodeInParts(long, out);
      at += 1;
    }
  }

  /** Encodes pieces from one on, until it is time to stop or a long one comes. @returns the next one */
  #encodePieces(pieces: readonly string[], from: number, out: number[]): number {
    const { model } = this.#parts;
    let worked = 0;
    for (let at = from; at < pieces.length; at++) {
      const piece = pieces[at] ?? '';
      if (worked + piece.length > PART_UNITS) return at;
      worked += piece.length + 1;
      model.encode(piece, out);
    }
    return pieces.length;
  }

  decode(tokens: readonly number[], options: { skipSpecial?: boolean } = {}): string {
    const units = tokens.reduce(
      (sum, id) => sum + (this.#added.get(id)?.content ?? this.#parts.tokens[id] ?? '').length,
      0,
    );
    return this.#guard.row(units, () => {
      const stream = new TokenStream(this.#parts, this.#added, (options.skipSpecial ?? true) ? NOT_SPECIAL : ANY);
      let text = '';
      for (const token of tokens) text += stream.push(token);
      return text + stream.end();
    });
  }

  get toolTemplate(): string | undefined {
    return this.#parts.chatTemplate?.toolTemplate;
  }

  stream(options: { reasoningMarks?: boolean; markers?: ReadonlySet<string> } = {}): {
    push(token: number): string;
    end(): string;
  } {
    const { start, end } = (options.reasoningMarks === true ? this.reasoningMarks : undefined) ?? {};
    return new TokenStream(
      this.#parts,
      this.#added,
      (token) =>
        !token.special ||
        token.content === start ||
        token.content === end ||
        options.markers?.has(token.content) === true,
    );
  }

  get answerBytes(): ((token: number, first: boolean) => Uint8Array) | undefined {
    const {
      guard,
      decoder: { bytes },
      tokens,
    } = this.#parts;
    if (!bytes) return undefined;
    return (token, first) => {
      const added = this.#added.get(token);
      const text = added?.content ?? tokens[token];
      if (text === undefined || added?.special === true) return new Uint8Array();
      return guard.row(text.length, () => bytes({ text, verbatim: added !== undefined }, first));
    };
  }

  get joinPair(): Tokenizer['joinPair'] {
    const { pair } = this.#parts;
    if (!pair) return undefined;
    const { prefix, middle, suffix, firstOfMiddle } = pair;
    return (first, second) => ({
      tokens: [...prefix, ...first, ...middle, ...second, ...suffix],
      ...(firstOfMiddle !== undefined && { secondText: prefix.length + first.length + firstOfMiddle }),
    });
  }

  text(token: number): string {
    return this.decode([token], { skipSpecial: false });
  }

  renderChat(messages: readonly ChatMessage[], input?: TemplateInput): string {
    return this.#chatTemplate().render(messages, input);
  }

  #chatTemplate(): ChatTemplate {
    const template = this.#parts.chatTemplate;
    if (template !== undefined) return template;
    throw new RowError(
      'chat-template',
      'found messages, but the model has no chat template: expected a row with prompt or tokens',
    );
  }

  encodeChat(messages: readonly ChatMessage[], options?: ChatOptions): number[] {
    return drained(this.#encodeChat(messages, options, (chat) => this.renderChat(chat.messages, chat.input)));
  }

  encodeChatInParts(messages: readonly ChatMessage[], options?: ChatOptions): Work<number[]> {
    return this.#encodeChat(messages, options, ({ messages: all, input }) =>
      this.#chatTemplate().renderInParts(all, input),
    );
  }

  *#encodeChat(
    messages: readonly ChatMessage[],
    { parseSpecial = true, surplus, ...input }: ChatOptions = {},
    render: RenderChat,
  ): Work<number[]> {
    const rendered = render({ messages, input });
    const plain = typeof rendered === 'string' ? rendered : yield* rendered;
    yield;
    if (parseSpecial) {
      const ids = this.encodeInParts(plain, { specialTokens: false, ...(surplus && { surplus }) });
      return 'next' in ids ? yield* ids : ids;
    }
    const units = unitsOfChat(messages, input);
    const encoding = {
      accept: NOT_SPECIAL,
      begins: 'first',
      out: [],
      surplus,
      units: plain.length,
      normalized: 0,
    } as const satisfies Encoding;
    const work = this.#encodeAsData({ messages, input }, plain, render, encoding);
    yield* this.#guard.rowInParts(units, counted(work, encoding));
    return encoding.out;
  }

  /** Encodes a conversation whose messages are data: of control tokens only the template's own count. */
  *#encodeAsData(chat: Chat, plain: string, render: RenderChat, encoding: Encoding): Work<void> {
    const control = (this.#control ??= new AddedTokens(this.#parts.addedTokens.filter((token) => token.special)));
    for (const section of yield* sectionsOfChat(render, chat, plain, control)) {
      if ('token' in section) encoding.out.push(section.token.id);
      else {
        // User-defined tokens still match in data; only the row's true beginning counts as such.
        const made = rewritten(section.text, wellFormed);
        const text = typeof made === 'string' ? made : yield* made;
        const sections = yield* this.#verbatim.splitInParts(text, NOT_SPECIAL);
        yield* this.#encodeSections(sections, encoding, section.start);
      }
    }
  }
}

/** A row on its way to tokens. */
interface Encoding {
  /** Which added tokens count. */
  readonly accept: (token: AddedToken) => boolean;
  /** Where its beginning stands. */
  readonly begins: Place;
  readonly out: number[];
  readonly surplus: Surplus | undefined;
  /** UTF-16 units of the row as given, and of what has been normalized of it so far. */
  readonly units: number;
  normalized: number;
}

/** Counts, whenever the work stops, the ids that are not kept. */
function* counted(work: Work<void>, { out, surplus }: Encoding): Work<void> {
  if (!surplus) return yield* work;
  for (;;) {
    const part = work.next();
    if (out.length > surplus.after) {
      surplus.count += out.length - surplus.after;
      out.length = surplus.after;
    }
    if (part.done === true) return;
    try {
      yield part.value;
    } catch (error) {
      // Whoever gives the work up.
      work.throw(error);
    }
  }
}

/** Each text between two tokens may grow like a row of its own, and there may be very many of them. */
function countNormalized(encoding: Encoding, { length }: string): void {
  encoding.normalized += length;
  checkGrowth('normalizer', encoding.units, encoding.normalized);
}

/**
 * Gives the content that added tokens are looked for as, in normalized text. @throws LimitError where that is more than
 * the automaton may have memory for
 */
function normalizedContent(normalizer: Normalizer): (token: AddedToken) => string {
  const most = TOKENIZER_LIMITS.addedTokenUnits;
  let units = 0;
  return ({ content }) => {
    const normalized = valueOf(normalizer.normalize(content));
    units += normalized.length;
    if (units > most)
      throw new LimitError(
        'added_tokens',
        `more than ${most} UTF-16 units once they are normalized`,
        `at most ${most}`,
      );
    return normalized;
  };
}

/**
 * Half a surrogate pair is no character; UTF-8 encoders write U+FFFD for it, and the other paths must agree with them.
 */
function wellFormed(text: string): string {
  return /\p{Cs}/u.test(text) ? text.replace(/\p{Cs}/gu, '\ufffd') : text;
}
