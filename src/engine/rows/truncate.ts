import { RowError, type RowErrorCode } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { ChatMessage, Tokenizer } from '../../model/Tokenizer.js';
import type { Work } from '../../collections/drained.js';
import type { Row, Truncation } from '../../Row.js';
import { readMessages } from '../../rows/messages.js';
import { templatePieces } from '../../rows/promptTemplate.js';
import { readable } from '../../rows/readableRow.js';
import { promptField } from '../../rows/rowFields.js';
import { characterAt, tokenPlaces, tokensWithin } from './textPlaces.js';
import {
  checkedTokens,
  fieldsOf,
  promptTokens,
  tooManyTokens,
  type MadeOptions,
  type PromptTokens,
  type RowLimits,
} from './promptTokens.js';

type End = Exclude<Truncation, 'off'>;

/** The tokens of a prompt, and how many were cut away for it to fit; undefined for none. */
export interface FittedPrompt {
  readonly tokens: readonly number[];
  readonly truncated?: number | undefined;
}

/** A text of a row that may be cut. */
export interface OwnText {
  readonly text: string;
  /** How often the prompt has it. */
  readonly times: number;
  /** The row with another text in its place. */
  with(row: Row, text: string): Row;
}

/** Units of a long text beside those that the context may hold: so many of each end are looked at token by token. */
const NEAR_UNITS = 2 ** 16;
/** Units of the text beyond that become tokens at a time, which are counted. */
const COUNTED_UNITS = 2 ** 16;
/** A text of more units than so many times what there is room for is first made shorter by its tokens. */
const WIDE = 4;
/** Attempts to come as near to the room as can be, before halves are tried. */
const GUESSES = 8;

/**
 * The tokens of a row's prompt, of which the row's own text is cut where they are too many, as `truncate` says.
 * @param most tokens of a prompt that is not too long
 * @param room for the tokens of one that is cut
 * @param byTokens of a plain text its last tokens are cut, whatever they spell: so encoders were trained. Default false
 * @throws RowError, also for a prompt that is too long without what may be cut: that is the caller's to say of others
 */
export function* fittedPrompt(
  row: Row,
  options: MadeOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
  { most, room, byTokens = false }: { readonly most: number; readonly room: number; readonly byTokens?: boolean },
): Work<FittedPrompt> {
  const { truncate = 'off' } = options;
  const { suffixTokens: behind = 0 } = tokenizer;
  const plain =
    byTokens &&
    truncate === 'tail' &&
    room > behind &&
    options.promptTemplate === undefined &&
    promptField(row) === 'prompt';
  const cut = (tokens: readonly number[], all: number): FittedPrompt => ({
    tokens: [...tokens.slice(0, room - behind), ...tokens.slice(tokens.length - behind)],
    truncated: all - room,
  });
  const made = (of: Row): Work<PromptTokens> => promptTokens(of, options, tokenizer, limits);
  const uncut = function* (): Work<FittedPrompt> {
    const { tokens, count } = yield* made(row);
    if (count > limits.contextTokens) throw tooManyTokens(count, limits.contextTokens);
    return { tokens };
  };
  if (truncate === 'off' || room < 1) return yield* uncut();
  if (options.promptTemplate === undefined && promptField(row) === 'tokens') {
    const ids: unknown = row.tokens;
    const length = readable(() => (Array.isArray(ids) ? ids.length : 0));
    if (length <= most) return yield* uncut();
    const kept = readable(() => keptOf(ids as readonly unknown[], room, truncate));
    return { tokens: checkedTokens(kept, limits.vocabularySize), truncated: length - kept.length };
  }
  const whole = yield* unless('too-long', made(row));
  if (whole && whole.count <= most) return { tokens: whole.tokens };
  if (plain && whole) return cut(whole.tokens, whole.count);
  const parts = ownTexts(row, options);
  const cutter = new Cutter(tokenizer, truncate, options.escapeSpecialTokens !== true);
  let far = 0;
  let current = row;
  const near: OwnText[] = [];
  for (const part of parts) {
    const [text, rest] = yield* cutter.near(
      part.text,
      room,
      (ROW_LIMITS.textUnitsPerContextToken * limits.contextTokens + NEAR_UNITS) / part.times,
    );
    current = part.with(current, text);
    if (!whole) far += part.times * (yield* rest());
    near.push({ ...part, text });
  }
  // Of a prompt that is too long as a text it is said so here.
  let tokens = yield* made(current);
  const all = whole?.count ?? tokens.count + far;
  if (plain && tokens.count > room) return cut(tokens.tokens, all);
  for (const part of near) {
    if (tokens.count <= room) break;
    const own = current;
    tokens = yield* cutter.cut(part, room, tokens, (text) => made((current = part.with(own, text))));
  }
  if (tokens.count > room)
    throw new RowError(
      'too-long',
      `the prompt has ${tokens.count} tokens without what may be cut of it, expected at most ${room}, with room for what is to stand after it: the row's own text alone is cut, and never what the template, instructions or other messages say`,
    );
  return { tokens: tokens.tokens, truncated: all - tokens.count };
}

/** The texts of a row that may be cut or parted, its own: what is long comes first. @throws RowError */
export function ownTexts(row: Row, options: MadeOptions): readonly OwnText[] {
  const { promptTemplate } = options;
  if (promptTemplate !== undefined) {
    const fields = fieldsOf(row);
    const parts = new Map<string, OwnText>();
    for (const { text, field } of templatePieces(promptTemplate, fields)) {
      if (field === undefined) continue;
      const times = (parts.get(field)?.times ?? 0) + 1;
      parts.set(field, {
        text,
        times,
        with: (of, cut) => ({ ...of, prompt: undefined, fields: { ...fieldsOf(of), [field]: cut } }) as Row,
      });
    }
    return [...parts.values()].sort((a, b) => b.text.length - a.text.length);
  }
  if (promptField(row) === 'prompt')
    return typeof row.prompt === 'string'
      ? [{ text: row.prompt, times: 1, with: (of, prompt) => ({ ...of, prompt }) as Row }]
      : [];
  const messages = readable(() => readMessages(row.messages));
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const message = messages[last];
  return message === undefined ? [] : partsOfMessage(messages, last, message);
}

interface TextPart {
  readonly text: string;
}

/** The texts of a message, one or those of its parts: what is long comes first. */
function partsOfMessage(messages: readonly ChatMessage[], at: number, message: ChatMessage): readonly OwnText[] {
  const { content } = message;
  if (content === null) return [];
  // `readMessages` lets parts of text through alone.
  const texts = typeof content === 'string' ? [content] : (content as readonly TextPart[]).map(({ text }) => text);
  return texts
    .map((text, place) => ({
      text,
      times: 1,
      with: (of: Row, cut: string): Row => {
        const now = readMessages(of.messages)[at]?.content ?? content;
        const parts = typeof now === 'string' || now === null ? cut : now.with(place, { type: 'text', text: cut });
        return { ...of, messages: messages.with(at, { ...message, content: parts }) } as Row;
      },
    }))
    .sort((a, b) => b.text.length - a.text.length);
}

/** The tokens, or undefined where there is this error of the row instead. */
function* unless(code: RowErrorCode, tokens: Work<PromptTokens>): Work<PromptTokens | undefined> {
  try {
    return yield* tokens;
  } catch (error) {
    if (error instanceof RowError && error.rowCode === code) return undefined;
    throw error;
  }
}

/** Cuts a list to so many: without its beginning, its end or its middle. */
export function keptOf<T>(list: readonly T[], count: number, truncate: End): readonly T[] {
  if (truncate === 'tail') return list.slice(0, count);
  if (truncate === 'head') return list.slice(list.length - count);
  return [...list.slice(0, Math.ceil(count / 2)), ...list.slice(list.length - Math.floor(count / 2))];
}

/** Cuts texts between their tokens, and never a character in two. */
class Cutter {
  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly truncate: End,
    private readonly parseSpecial: boolean,
  ) {}

  /**
   * Finds the part of a text that can matter where so many units do, and how many tokens the rest has, counted in
   * pieces. Of a very long one that is little more than there is room for.
   */
  *near(text: string, room: number, units: number): Work<readonly [near: string, rest: () => Work<number>]> {
    const half = characterAt(text, Math.floor(text.length / 2)).from;
    let [from, to] = [half, half];
    if (text.length > units)
      [from, to] = this.gap(text, Math.floor(units / 2), Math.floor(units / 2), Math.floor(units));
    else if (this.truncate !== 'middle') from = to = this.truncate === 'tail' ? text.length : 0;
    if (text.length - (to - from) > WIDE * (room + COUNTED_UNITS)) {
      const [first, last] = [yield* this.reach(text, 0, from, room), yield* this.reach(text, text.length, to, room)];
      if (first < from || last > to) [from, to] = [first, last];
    }
    return [text.slice(0, from) + text.slice(to), () => this.counted(text, from, to)];
  }

  /** How far one has to go from an end of a text for more tokens than there is room for. */
  private *reach(text: string, from: number, to: number, room: number): Work<number> {
    let count = 0;
    let at = from;
    while (at !== to && count <= room + COUNTED_UNITS) {
      const next =
        Math.abs(to - at) <= COUNTED_UNITS ? to : characterAt(text, at + Math.sign(to - at) * COUNTED_UNITS).from;
      count += (yield* this.encoded(text.slice(Math.min(at, next), Math.max(at, next)))).length;
      at = next;
      yield;
    }
    return at;
  }

  private *counted(text: string, from: number, to: number): Work<number> {
    let count = 0;
    for (let at = from; at < to;) {
      const end = at + COUNTED_UNITS < to ? characterAt(text, at + COUNTED_UNITS).from : to;
      const next = end > at ? end : to;
      count += (yield* this.encoded(text.slice(at, next))).length;
      at = next;
      yield;
    }
    return count;
  }

  /**
   * The tokens of a prompt with as much of the part as there is room for.
   * @param whole those with all of it, which are too many
   * @param made those with so much of it, which are also made last where they are the result
   */
  *cut(
    { text, times }: OwnText,
    room: number,
    whole: PromptTokens,
    made: (text: string) => Work<PromptTokens>,
  ): Work<PromptTokens> {
    const places = yield* tokenPlaces(text, this.tokenizer, this.parseSpecial);
    const count = places.length - 1;
    let [fits, tooMany] = [0, count];
    let best: string | undefined;
    let guess = count - Math.ceil((whole.count - room) / times);
    for (let step = 0; tooMany - fits > 1; step++) {
      const kept = Math.min(Math.max(guess, fits + 1), tooMany - 1);
      const cut = this.kept(text, places, kept);
      const tokens = (yield* unless('empty-prompt', made(cut))) ?? { tokens: [], count: 0 };
      if (tokens.count <= room) {
        fits = kept;
        if (tokens.count > 0) best = cut;
        if (tokens.count === room) return tokens;
      } else tooMany = kept;
      const off = room - tokens.count;
      guess = step < GUESSES ? kept + (off > 0 ? Math.floor : Math.ceil)(off / times) : (fits + tooMany) >> 1;
    }
    return best !== undefined ? yield* made(best) : ((yield* unless('empty-prompt', made(''))) ?? whole);
  }

  private kept(text: string, places: readonly number[], count: number): string {
    const total = places.length - 1;
    const place = (token: number): number => places[token] ?? text.length;
    const [from, to] = this.gap(
      text,
      place(Math.ceil(count / 2)),
      text.length - place(total - Math.floor(count / 2)),
      this.truncate === 'tail' ? place(count) : text.length - place(total - count),
    );
    return text.slice(0, from) + text.slice(to);
  }

  /**
   * From where to where a text is cut.
   * @param before units that stay at its beginning, and `behind` at its end, where the middle is cut
   * @param one those that stay where an end is
   */
  private gap(text: string, before: number, behind: number, one: number): readonly [from: number, to: number] {
    const { truncate } = this;
    const [first, last] = truncate === 'tail' ? [one, 0] : truncate === 'head' ? [0, one] : [before, behind];
    return [characterAt(text, first).from, characterAt(text, text.length - last).to];
  }

  private encoded(text: string): Work<readonly number[]> {
    return tokensWithin(text, this.tokenizer, this.parseSpecial);
  }
}
