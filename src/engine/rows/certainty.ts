import type { Certainty } from '../../KeptAnswer.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { highest } from '../../collections/highest.js';
import { memberRanges } from '../../arguments/memberRanges.js';

/**
 * How sure a model was of tokens.
 * @param certainties how likely each was among those that might come; undefined where there was no other: of none that
 * had alternatives everything was certain
 */
export function certaintyOf(certainties: readonly (number | undefined)[]): Certainty {
  const chosen = certainties.filter((certainty) => certainty !== undefined);
  if (chosen.length === 0) return { mean: 1, least: 1 };
  return {
    mean: chosen.reduce((sum, certainty) => sum + certainty, 0) / chosen.length,
    least: chosen.reduce((least, certainty) => Math.min(least, certainty)),
  };
}

/**
 * The same of each member of an answer that is a JSON object, over the tokens that have some of its value's text.
 * Undefined for another answer.
 */
export function fieldCertainties(
  text: string,
  tokens: readonly number[],
  certainties: readonly (number | undefined)[],
  tokenizer: Pick<Tokenizer, 'stream'>,
): Readonly<Record<string, Certainty>> | undefined {
  if (!text.startsWith('{')) return undefined;
  const stream = tokenizer.stream();
  let end = 0;
  // A character of several tokens is there with the last of them, and all of them are its tokens.
  const ends = tokens.map((token) => (end += stream.push(token).length));
  const begun = (at: number): number => ends[at - 1] ?? 0;
  const many = Math.min(ends.length, certainties.length);
  return Object.fromEntries(
    [...memberRanges(text)].map(([name, { from, to }]) => {
      const first = highest(0, many, (at) => at === 0 || Math.max(begun(at), begun(at - 1) + 1) <= from);
      const last = highest(first, many, (at) => at === first || begun(at - 1) < to);
      return [name, certaintyOf(certainties.slice(first, last))];
    }),
  );
}
