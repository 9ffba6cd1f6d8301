import { drained, type Work } from '../../collections/drained.js';
import type { Steps } from '../../regex/Steps.js';
import type { Pattern } from './compilePattern.js';
import { PART_UNITS } from './parts.js';
import { matchesOf } from './matchesOf.js';

/** What becomes of the text that a splitting pattern matches, in the words of tokenizer.json. */
export type SplitBehavior = 'Removed' | 'Isolated' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

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
): string[] {
  const result: string[] = [];
  if (behavior === 'Isolated' && pattern.matcher === undefined) isolate(text, pattern.regex, 2 ** 30, START, result);
  else drained(cut(text, pattern, behavior, invert, steps, result));
  return result;
}

/** The same, stopping on its way through a long text. */
export function* splitInParts(
  text: string,
  pattern: Pattern,
  behavior: SplitBehavior,
  invert: boolean,
  steps: Steps,
): Work<string[]> {
  const result: string[] = [];
  if (behavior === 'Isolated' && pattern.matcher === undefined) {
    for (let at: Place | undefined = START; at;) {
      at = isolate(text, pattern.regex, PART_UNITS, at, result);
      yield;
    }
  } else yield* cut(text, pattern, behavior, invert, steps, result);
  return result;
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

function* cut(
  text: string,
  pattern: Pattern,
  behavior: SplitBehavior,
  invert: boolean,
  steps: Steps,
  result: string[],
): Work<void> {
  const ends: number[] = [];
  const matched: boolean[] = [];
  let at = 0;
  const part = (end: number, isMatch: boolean): void => {
    if (end === at) return;
    ends.push(end);
    matched.push(isMatch !== invert);
    at = end;
  };
  for (const match of matchesOf(pattern, text, steps)) {
    if (match === undefined) {
      yield;
      continue;
    }
    part(match.start, false);
    part(match.end, true);
  }
  part(text.length, false);

  let start = 0;
  for (let i = 0; i < ends.length; i++) {
    if ((i + 1) % PART_UNITS === 0) yield;
    const here = matched[i] === true;
    const next = i + 1 < ends.length ? matched[i + 1] === true : undefined;
    if (behavior === 'Removed') {
      if (!here) result.push(text.slice(start, ends[i]));
    } else {
      // Does the part that follows belong to this one?
      const joined =
        next !== undefined &&
        ((behavior === 'MergedWithPrevious' && !here && next) ||
          (behavior === 'MergedWithNext' && here && !next) ||
          (behavior === 'Contiguous' && here === next));
      if (joined) continue;
      result.push(text.slice(start, ends[i]));
    }
    start = ends[i] ?? start;
  }
}
