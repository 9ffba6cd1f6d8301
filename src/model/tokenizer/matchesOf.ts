import { type Match, width } from '../../regex/Matcher.js';
import type { Steps } from '../../regex/Steps.js';
import type { Pattern } from './compilePattern.js';

/** So many of V8's matches are found between two moments at which work may stop. */
const MATCHES = 4096;

/**
 * Each match of a pattern in a text, one after the other; undefined wherever work may stop.
 * @param steps what matches take that V8 is not asked for
 */
export function* matchesOf(
  { regex, matcher }: Pattern,
  text: string,
  steps: Steps,
): Generator<Match | undefined, void, void> {
  let from = 0;
  const after = ({ start, end }: Match): number => (end > start ? end : end + width(text, end));
  const search = matcher?.search(text, steps);
  for (let count = 1; from <= text.length; count++) {
    let match: Match | undefined;
    if (search) {
      const finding = search.find(from);
      let step = finding.next();
      for (; step.done !== true; step = finding.next()) yield undefined;
      match = step.value;
    } else {
      if (count % MATCHES === 0) yield undefined;
      // Others may have used it meanwhile.
      regex.lastIndex = from;
      const found = regex.exec(text);
      match = found === null ? undefined : { start: found.index, end: found.index + found[0].length };
    }
    if (match === undefined) return;
    yield match;
    from = after(match);
  }
}
