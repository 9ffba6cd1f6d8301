import { ROW_LIMITS } from '../files/limits.js';
import { LimitError } from './growth.js';
import type { Work } from '../../collections/drained.js';

/**
 * Units of a text (characters, symbols, pieces) that are worked on between two moments at which work may stop: some
 * milliseconds at most. What is shorter does not stop.
 */
export const PART_UNITS = 8192;

/** Rewrites a text part by part, where what becomes of a character does not depend on others. */
export function rewritten(text: string, rewrite: (part: string) => string): string | Work<string> {
  return text.length <= PART_UNITS ? rewrite(text) : rewrittenInParts(text, rewrite);
}

function* rewrittenInParts(text: string, rewrite: (part: string) => string): Work<string> {
  const parts: string[] = [];
  for (const part of partsOf(text)) {
    parts.push(rewrite(part));
    yield;
  }
  return parts.join('');
}

/** A text in parts. */
export function* partsOf(text: string): Generator<string, void, undefined> {
  for (let start = 0; start < text.length;) {
    const end = Math.min(text.length, start + PART_UNITS);
    // A pair of surrogates stays together.
    const whole = end + Number(end < text.length && isPair(text, end - 1));
    yield text.slice(start, whole);
    start = whole;
  }
}

/** The marks that may be put in another order, or become such. */
const MARKS = /[\p{M}\uff9e\uff9f]{2,}/gu;
/** Units that nothing before them is composed with, or put in another order with: a text may be cut there. */
const FIRST =
  /[\0-\x7f\u0410-\u044f\u05d0-\u05ea\u0621-\u064a\u0904-\u0939\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]/;
/** Units in which a place to cut is looked for. */
const LOOK = 4096;

/** A form of Unicode's of a text. @throws LimitError for marks that would be put in order without end */
export function* composed(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): Work<string> {
  const parts: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = start + PART_UNITS;
    while (end < text.length) {
      const at = text.slice(end, end + LOOK).search(FIRST);
      if (at >= 0) {
        end += at;
        break;
      }
      end += LOOK;
    }
    const part = text.slice(start, end);
    if (part.length > ROW_LIMITS.marks)
      for (const [run] of part.matchAll(MARKS)) if (run.length > ROW_LIMITS.marks) yield* checkOrder(run);
    parts.push(part.normalize(form));
    start = end;
    if (start < text.length) yield;
  }
  return parts.join('');
}

/** V8 moves each mark past all that belong after it: time that grows with their number squared. @throws LimitError */
function* checkOrder(marks: string): Work<void> {
  let before = '';
  let seen = 0;
  for (const mark of marks) {
    if (mark !== before && (before + mark).normalize('NFKD') !== before.normalize('NFKD') + mark.normalize('NFKD'))
      throw new LimitError(
        'normalizer',
        `${marks.length} UTF-16 units of combining marks in a row that are not in canonical order`,
        `at most ${ROW_LIMITS.marks} of such`,
      );
    before = mark;
    if (++seen % PART_UNITS === 0) yield;
  }
}

function isPair(text: string, at: number): boolean {
  return (text.codePointAt(at) ?? 0) > 0xffff;
}
