import type { Work } from '../../collections/drained.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { ChunkPlace } from '../../rows/chunks.js';
import { characterAt, tokenPlaces, tokensWithin } from './textPlaces.js';

/** A part of a text, and where it stands there. */
export interface Chunk extends ChunkPlace {
  /** In UTF-16 units. */
  readonly from: number;
  readonly to: number;
}

/** How texts are parted. */
export interface ChunkRules {
  /** Most tokens of a part. */
  readonly tokens: number;
  /** Tokens that two parts have in common. */
  readonly overlap: number;
  /** True where texts such as `<|im_start|>` are control tokens. */
  readonly parseSpecial: boolean;
}

/** Units of a text that so many tokens are first looked for in. */
const UNITS_PER_TOKEN = 8;

/**
 * The parts of a text, each of at most so many tokens as it is encoded by itself. They depend on the text alone: each
 * begins as many tokens before the end of the one before as they overlap, and none begins or ends within a character. A
 * character that alone is more tokens is a part.
 */
export function* chunksOf(text: string, rules: ChunkRules, tokenizer: Tokenizer): Work<readonly Chunk[]> {
  const chunks: Chunk[] = [];
  const characters = new CharacterCount(text);
  for (let [from, end] = [0, -1]; ;) {
    const { to, next } = yield* chunkAt(text, from, rules, tokenizer);
    if (to <= end && from < end) {
      // What is common to both leaves no room: the next part has to go on.
      from = characterAt(text, from + 1).to;
      continue;
    }
    chunks.push({ from, to, start: characters.before(from), end: characters.before(to) });
    if (to >= text.length) return chunks;
    [from, end] = [next, to];
    yield;
  }
}

/** Where the part that begins at a place ends, and where the next one begins: after this one's beginning. */
function* chunkAt(
  text: string,
  from: number,
  { tokens: most, overlap, parseSpecial }: ChunkRules,
  tokenizer: Tokenizer,
): Work<{ readonly to: number; readonly next: number }> {
  let places: readonly number[] = [0];
  for (let units = UNITS_PER_TOKEN * (most + 1); ; units *= 2) {
    const to = from + units >= text.length ? text.length : characterAt(text, from + units).from;
    places = yield* tokenPlaces(text.slice(from, to), tokenizer, parseSpecial);
    // The last token of what is looked at may go on.
    if (to === text.length || places.length - 1 > most + 1) {
      if (to === text.length && places.length - 1 <= most) return { to, next: to };
      break;
    }
  }
  const placeOf = (token: number): number => from + (places[token] ?? 0);
  const second = characterAt(text, from + 1).to;
  for (let kept = most; kept > 0;) {
    const to = characterAt(text, placeOf(kept)).from;
    if (to <= from) break;
    const count = (yield* tokensWithin(text.slice(from, to), tokenizer, parseSpecial)).length;
    if (count <= most) {
      const next = characterAt(text, placeOf(Math.max(0, kept - overlap))).to;
      return { to, next: overlap === 0 ? to : Math.min(to, Math.max(next, second)) };
    }
    kept -= count - most;
  }
  return { to: second, next: second };
}

/** Counts the characters before places of a text, which it finds soonest if they follow one another. */
class CharacterCount {
  private units = 0;
  private characters = 0;

  constructor(private readonly text: string) {}

  before(place: number): number {
    const isSecond = (at: number): boolean => at > 0 && (this.text.codePointAt(at - 1) ?? 0) > 0xff_ff;
    for (; this.units < place; this.characters++)
      this.units += (this.text.codePointAt(this.units) ?? 0) > 0xff_ff ? 2 : 1;
    for (; this.units > place; this.characters--) this.units -= isSecond(this.units - 1) ? 2 : 1;
    return this.characters;
  }
}
