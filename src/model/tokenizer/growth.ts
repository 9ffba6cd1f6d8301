import { ROW_LIMITS } from '../files/limits.js';
import { drained, type Work } from '../../collections/drained.js';
import type { Steps } from '../../regex/Steps.js';
import type { Pattern } from './compilePattern.js';
import { matchesOf } from './matchesOf.js';

/** Something that a model's file brings has gone beyond a limit; whoever asked for the work says what becomes of it. */
export class LimitError extends Error {
  /** @param field of the model's file @param found what it did, in words @param expected the limit, in words */
  constructor(
    readonly field: string,
    readonly found: string,
    readonly expected: string,
  ) {
    super(`${field}: found ${found}, expected ${expected}`);
  }
}

/** Size up to which what comes of a text need not be counted first. */
const SMALL = 2 ** 18;

/** So many pieces at a time become one string. */
const PIECES = 8192;

/** The most units that a step may make of a text of `units`. */
export function mostGrown(units: number): number {
  return Math.min(ROW_LIMITS.growth * (units + 64), 4 * units + ROW_LIMITS.growthUnits);
}

/** @throws LimitError if a step that made `grown` units of `units` made too many */
export function checkGrowth(field: string, units: number, grown: number): void {
  const most = mostGrown(units);
  if (grown > most)
    throw new LimitError(field, `a text that grows from ${units} to ${grown} UTF-16 units`, `at most ${most}`);
}

/**
 * Puts `content` in the place of each match. What would become too long is found while it is counted, not when it has
 * been made.
 */
export function replaceMatches(text: string, pattern: Pattern, content: string, steps: Steps): string {
  return drained(replaceInParts(text, pattern, content, steps));
}

/** The same, stopping on its way. */
export function* replaceInParts(text: string, pattern: Pattern, content: string, steps: Steps): Work<string> {
  const { regex, field } = pattern;
  // Even a pattern that matches nothing, everywhere.
  if (pattern.matcher === undefined && text.length + (text.length + 1) * content.length <= SMALL)
    return text.replace(regex, () => content);
  const most = mostGrown(text.length);
  // A string to which small ones are added is a tree of them, of some 30 bytes each: so they are joined, block by
  // block.
  const blocks: string[] = [];
  let pieces: string[] = [];
  let made = 0;
  let at = 0;
  for (const match of matchesOf(pattern, text, steps)) {
    if (match === undefined) {
      yield;
      continue;
    }
    const { start, end } = match;
    made += start - at + content.length;
    if (made > most) checkGrowth(field, text.length, made + text.length - end);
    pieces.push(text.slice(at, start), content);
    if (pieces.length >= PIECES) {
      blocks.push(pieces.join(''));
      pieces = [];
    }
    at = end;
  }
  if (blocks.length + pieces.length === 0) return text;
  blocks.push(...pieces, text.slice(at));
  return blocks.join('');
}
