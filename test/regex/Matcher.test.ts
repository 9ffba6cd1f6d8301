import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createContext, Script } from 'node:vm';
import { drained } from '../../src/collections/drained.js';
import { Matcher, width } from '../../src/regex/Matcher.js';
import { StepLimit, Steps } from '../../src/regex/Steps.js';
import { tries } from '../support/tries.js';

/** All matches, as a global search goes through a text. */
function found(source: string, flags: string, text: string, most = 2 ** 20): readonly (readonly [number, number])[] {
  const search = new Matcher(source, flags).search(text, new Steps(most));
  const all: (readonly [number, number])[] = [];
  for (let from = 0; from <= text.length;) {
    const match = drained(search.find(from));
    if (match === undefined) break;
    all.push([match.start, match.end]);
    from = match.end > match.start ? match.end : match.end + width(text, match.end);
  }
  return all;
}

const sandbox = createContext({ text: '', source: '', flags: '' });
const script = new Script('[...text.matchAll(new RegExp(source, flags))]');

function run(text: string, source: string, flags: string): unknown {
  Object.assign(sandbox, { text, source, flags });
  return script.runInContext(sandbox, { timeout: 500 });
}

function v8(source: string, flags: string, text: string): readonly (readonly [number, number])[] {
  return (
    // Ended where it goes back for too long: in a context that has its time, as nothing else ends it.
    (run(text, source, `${flags}g`) as RegExpExecArray[])
      .map(({ index, 0: { length } }) => [index, index + length])
      // V8, unlike ECMAScript, finds what is empty also inside of a character.
      .filter(([start = 0, end]) => start !== end || start === 0 || (text.codePointAt(start - 1) ?? 0) <= 0xffff)
      .map(([start = 0, end = 0]) => [start, end] as const)
  );
}

/** Undefined where somebody went back for too long. */
function ended<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof StepLimit || (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      return undefined;
    throw error;
  }
}

const ATOMS = [
  ...['a', 'b', 'k', 'S', '-', '1', ' ', 'ſ', '\\u{1f600}', 'é', '.', '\\n'],
  ...[
    '[ab]',
    '[^a]',
    '[^\\s\\p{L}]',
    '\\p{L}',
    '\\p{Lu}',
    '\\P{N}',
    '\\d',
    '\\w',
    '\\W',
    '\\s',
    '\\S',
    '[a-c😀]',
    '[]',
    '[^]',
  ],
  ...['^', '$', '\\b', '\\B'],
];
const QUANTIFIERS = ['*', '+', '?', '{2}', '{0,2}', '{1,3}', '{2,}', '{0}', '*?', '+?', '??', '{1,2}?', '{0,}?'];

/** Patterns that may go back exponentially: texts are short, so that V8 comes to its end, too. */
function pattern(depth: number, groups: boolean): fc.Arbitrary<string> {
  const atom = fc.constantFrom(...ATOMS);
  if (depth === 0) return atom;
  const inner = fc.array(pattern(depth - 1, groups), { minLength: 1, maxLength: 3 }).map((parts) => parts.join(''));
  const either = fc.array(inner, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('|'));
  const open = groups ? ['(', '(?:', '(?:', '('] : ['(?:', '('];
  const group = fc.tuple(fc.constantFrom(...open), either).map(([begin, body]) => `${begin}${body})`);
  const quantified = fc
    .tuple(
      fc.oneof(
        atom.filter((one) => !/^[$^]$|^\\[bB]$/.test(one)),
        group,
      ),
      fc.constantFrom(...QUANTIFIERS),
    )
    .map(([part, times]) => part + times);
  const look = fc
    .tuple(fc.constantFrom('(?=', '(?!', '(?<=', '(?<!'), either)
    .map(([begin, body]) => `${begin}${body})`);
  const parts = [atom, group, quantified, quantified, look, fc.constant('|')];
  return fc.oneof(...(groups ? [...parts, fc.constantFrom('\\1', '\\2')] : parts));
}

const text = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('a', 'b', 'k', 's') },
      fc.constantFrom('A', 'K', '1', ' ', '\n', '-', 'ſ', 'K', 'é', '\u{1f600}', '\ud83d', '\ude00', '\u2028'),
    ),
    { maxLength: 10 },
  )
  .map((units) => units.join(''));

test.each([false, true])('finds what V8 finds; with references to groups: %s', (groups) => {
  let compared = 0;
  fc.assert(
    fc.property(
      fc.array(pattern(2, groups), { minLength: 1, maxLength: 3 }).map((parts) => parts.join('')),
      fc.constantFrom('u', 'u', 'iu', 'mu', 'su', 'imsu'),
      fc.array(text, { minLength: 3, maxLength: 3 }),
      (source, flags, texts) => {
        try {
          new RegExp(source, flags);
        } catch {
          return;
        }
        for (const one of texts) {
          const [mine, theirs] = [ended(() => found(source, flags, one)), ended(() => v8(source, flags, one))];
          if (mine === undefined || theirs === undefined) continue;
          expect([source, flags, one, mine]).toEqual([source, flags, one, theirs]);
          compared += 1;
        }
      },
    ),
    { numRuns: tries(1500, 100_000) },
  );
  expect(compared).toBeGreaterThan(1500);
});
