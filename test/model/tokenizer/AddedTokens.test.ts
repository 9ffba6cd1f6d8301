import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { AddedTokens, type AddedToken, type Section } from '../../../src/model/tokenizer/AddedTokens.js';
import { cpuSeconds } from '../support/expectBounded.js';

function token(content: string, id: number): AddedToken {
  return {
    id,
    content,
    special: id % 3 !== 0,
    normalized: false,
    singleWord: false,
    stripLeft: false,
    stripRight: false,
  };
}

/** The definition, place by place: the longest token that begins here, the first of equal ones. */
function expected(tokens: readonly AddedToken[], text: string, accept: (token: AddedToken) => boolean): Section[] {
  const sections: Section[] = [];
  let done = 0;
  for (let at = 0; at < text.length;) {
    const here = tokens.filter(({ content }) => content !== '' && text.startsWith(content, at));
    const longest = here.reduce<AddedToken | undefined>(
      (best, one) => (one.content.length > (best?.content.length ?? 0) ? one : best),
      undefined,
    );
    if (longest === undefined) {
      at++;
      continue;
    }
    const end = at + longest.content.length;
    if (accept(longest)) {
      if (at > done) sections.push({ text: text.slice(done, at), start: done });
      sections.push({ token: longest });
      done = end;
    }
    at = end;
  }
  if (done < text.length) sections.push({ text: text.slice(done), start: done });
  return sections;
}

test('any tokens in any text: the leftmost first, the longest of those that begin at one place', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '<'), maxLength: 6 });
  fc.assert(
    fc.property(
      fc.array(letters, { maxLength: 8 }),
      fc.string({ unit: fc.constantFrom('a', 'b', '<'), maxLength: 40 }),
      fc.boolean(),
      (contents, text, all) => {
        const tokens = contents.map(token);
        const accept = (one: AddedToken): boolean => all || one.special;
        expect(new AddedTokens(tokens).split(text, accept)).toEqual(expected(tokens, text, accept));
      },
    ),
    { numRuns: 2000 },
  );
});

test('a text that almost has a long token everywhere takes time in proportion to its length', () => {
  const tokens = new AddedTokens([token(`${'a'.repeat(60_000)}b`, 1), token('a', 2)]);
  const start = process.cpuUsage();
  expect(tokens.split('a'.repeat(300_000), () => true)).toHaveLength(300_000);
  // Some 0.1 s; place by place it would be 18 billion steps.
  expect(cpuSeconds(start)).toBeLessThan(20);
});
