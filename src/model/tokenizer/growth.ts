import { ROW_LIMITS } from '../files/limits.js';
import type { Pattern } from './compilePattern.js';

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

/** What may come of a text so small need not be counted first. */
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
export function replaceMatches(text: string, { regex, field }: Pattern, content: string): string {
  // Even a pattern that matches nothing, everywhere.
  if (text.length + (text.length + 1) * content.length <= SMALL) return text.replace(regex, () => content);
  const most = mostGrown(text.length);
  // A string to which small ones are added is a tree of them, of some 30 bytes each: so they are joined, block by
  // block.
  const blocks: string[] = [];
  let pieces: string[] = [];
  let made = 0;
  let at = 0;
  regex.lastIndex = 0;
  for (let match = regex.exec(text); match !== null; match = regex.exec(text)) {
    const end = match.index + match[0].length;
    if (end === match.index) regex.lastIndex += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
    made += match.index - at + content.length;
    if (made > most) checkGrowth(field, text.length, made + text.length - end);
    pieces.push(text.slice(at, match.index), content);
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

/**
 * What a chain of steps may cost, in proportion to the text that goes into it, whatever the text is. It is added up
 * while the chain is read, step by step, and says beforehand which work is so short that it needs no clock.
 */
export class ChainCost {
  /** Units that come out for each one that goes in, at most. Infinity where nobody knows. */
  growth = 1;
  /**
   * Units that all steps together go through for each one that goes in, at most. Infinity where time is not known to be
   * in proportion to the text.
   */
  work = 0;

  /**
   * One more step behind the others.
   * @param growth units that it makes of one, at most; Infinity of what may take any time
   * @param times what a unit takes, in units of an ordinary step: one replacement, one split
   */
  step(growth = 1, times = 1): void {
    this.growth *= Math.max(1, growth);
    this.work += this.growth * times;
  }

  /** Another chain behind this one. */
  chain(next: ChainCost): void {
    this.work += this.growth * next.work;
    this.growth *= next.growth;
  }
}
