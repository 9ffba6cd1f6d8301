import { drained } from '../../regex/drained.js';
import { type Match, width } from '../../regex/Matcher.js';
import type { Steps } from '../../regex/Steps.js';
import type { Pattern } from './compilePattern.js';

/**
 * Each match of a pattern in a text, one after the other: the next one, whenever it is asked for; undefined after the
 * last.
 * @param steps what matches take that V8 is not asked for
 */
export function matchesOf({ regex, matcher }: Pattern, text: string, steps: Steps): () => Match | undefined {
  let from = 0;
  const after = ({ start, end }: Match): number => (end > start ? end : end + width(text, end));
  if (matcher) {
    const search = matcher.search(text, steps);
    return () => {
      const match = from > text.length ? undefined : drained(search.find(from));
      from = match === undefined ? text.length + 1 : after(match);
      return match;
    };
  }
  return () => {
    regex.lastIndex = from;
    const found = from > text.length ? null : regex.exec(text);
    if (found === null) {
      from = text.length + 1;
      return undefined;
    }
    const match = { start: found.index, end: found.index + found[0].length };
    from = after(match);
    return match;
  };
}
