import type { Steps } from '../../regex/Steps.js';
import type { Pattern } from './compilePattern.js';
import { matchesOf } from './matchesOf.js';

/** The fate of the text that a splitting pattern matches, in the words of tokenizer.json. */
export type SplitBehavior = 'Removed' | 'Isolated' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

/** Pieces as they are cut, so many at a time; undefined where work may stop between them. */
export type Batches = Generator<readonly string[] | undefined, void, void>;

/** Pieces that are handed on together. */
const BATCH = 4096;

/** All of them, without stopping. */
export function allOf(made: readonly string[] | Batches): readonly string[] {
  if (!('next' in made)) return made;
  const pieces: string[] = [];
  for (const batch of made) for (const piece of batch ?? []) pieces.push(piece);
  return pieces;
}

/**
 * Cuts `text` at the matches of a pattern. Nothing empty is returned.
 * @param invert what does not match is treated as the matches, and the other way round
 * @param steps what matching takes, where V8 may take any time
 */
export function split(
  text: string,
  pattern: Pattern,
  behavior: SplitBehavior,
  invert: boolean,
  steps: Steps,
): readonly string[] {
  if (behavior !== 'Isolated' || pattern.matcher !== undefined)
    return allOf(cut(text, pattern, behavior, invert, steps));
  const result: string[] = [];
  isolate(text, pattern.regex, 2 ** 30, START, result);
  return result;
}

/** The same of a long text: its pieces are never all there at once, as they may be as many as its characters. */
export function* splitInParts(
  text: string,
  pattern: Pattern,
  behavior: SplitBehavior,
  invert: boolean,
  steps: Steps,
): Batches {
  if (behavior !== 'Isolated' || pattern.matcher !== undefined)
    return yield* cut(text, pattern, behavior, invert, steps);
  for (let at: Place | undefined = START; at;) {
    const pieces: string[] = [];
    at = isolate(text, pattern.regex, BATCH, at, pieces);
    yield pieces;
  }
}

const START: Place = [0, 0];

/** Where looking for matches goes on, and where the last one ended. */
type Place = readonly [from: number, done: number];

/**
 * The most frequent case; whether a part is a match makes no difference to it.
 * @param most matches @returns where to go on after so many
 */
function isolate(text: string, regex: RegExp, most: number, [from, done]: Place, result: string[]): Place | undefined {
  let at = done;
  let count = 0;
  // Others may have used it meanwhile.
  regex.lastIndex = from;
  for (let match = regex.exec(text); match !== null; match = regex.exec(text)) {
    const end = match.index + match[0].length;
    if (end === match.index) regex.lastIndex += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
    if (match.index > at) result.push(text.slice(at, match.index));
    if (end > match.index) result.push(match[0]);
    at = end;
    if (++count >= most) return [regex.lastIndex, at];
  }
  if (at < text.length) result.push(text.slice(at));
  return undefined;
}

function* cut(text: string, pattern: Pattern, behavior: SplitBehavior, invert: boolean, steps: Steps): Batches {
  let pieces: string[] = [];
  let start = 0;
  /** The part before: what becomes of it depends on the one that follows. */
  let end = 0;
  let here = false;
  const settle = (next: boolean | undefined): void => {
    if (end === start) return;
    if (behavior === 'Removed') {
      if (!here) pieces.push(text.slice(start, end));
    } else {
      // Does the part that follows belong to this one?
      const joined =
        next !== undefined &&
        ((behavior === 'MergedWithPrevious' && !here && next) ||
          (behavior === 'MergedWithNext' && here && !next) ||
          (behavior === 'Contiguous' && here === next));
      if (joined) return;
      pieces.push(text.slice(start, end));
    }
    start = end;
  };
  const part = (to: number, isMatch: boolean): void => {
    if (to === end) return;
    settle(isMatch !== invert);
    [end, here] = [to, isMatch !== invert];
  };
  for (const match of matchesOf(pattern, text, steps)) {
    if (match !== undefined) {
      part(match.start, false);
      part(match.end, true);
    }
    if (match !== undefined && pieces.length < BATCH) continue;
    yield pieces;
    pieces = [];
  }
  part(text.length, false);
  settle(undefined);
  yield pieces;
}
