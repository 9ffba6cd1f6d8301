import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Fields } from '../../../src/model/files/Fields.js';
import { createNormalizer } from '../../../src/model/tokenizer/Normalizer.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { createPreTokenizer, type Place } from '../../../src/model/tokenizer/PreTokenizer.js';
import { PART_UNITS } from '../../../src/model/tokenizer/parts.js';
import { allOf } from '../../../src/model/tokenizer/split.js';
import { valueOf } from '../../../src/collections/drained.js';

const guard = new Guard(new Fields('tokenizer.json'));
const BEHAVIORS = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'] as const;
const split = (regex: string, behavior: string, invert = false) => ({
  type: 'Split',
  pattern: { Regex: regex },
  behavior,
  invert,
});

/** Long texts of short words: what stands in them comes again, so that a short text tells what becomes of them. */
const word = fc.constantFrom('a', 'Bc', ' ', '  ', '12', '.', '...', 'é', '漢', '\n');
const steps = fc.array(
  fc.oneof(
    fc
      .tuple(
        fc.constantFrom(...BEHAVIORS),
        fc.boolean(),
        fc.constantFrom(String.raw`\s+`, String.raw`\p{L}+`, '[0-9.]'),
      )
      .map(([behavior, invert, regex]) => split(regex, behavior, invert)),
    fc.constant({ type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true }),
    fc.constant({ type: 'Digits', individual_digits: true }),
    fc.constant({ type: 'BertPreTokenizer' }),
    fc.constant({ type: 'ByteLevel', add_prefix_space: true, use_regex: true }),
  ),
  { minLength: 1, maxLength: 3 },
);

test('the pieces of a long text are those of the same text in one go', () => {
  fc.assert(
    fc.property(
      steps,
      fc.array(word, { minLength: 1, maxLength: 12 }),
      fc.constantFrom<Place>('first', 'within', 'continues'),
      (given, words, place) => {
        // A step more than there may be of that kind is refused.
        fc.pre(given.filter(({ type }) => type === 'ByteLevel').length <= 2);
        const preTokenizer = createPreTokenizer(guard, { type: 'Sequence', pretokenizers: given });
        const one = words.join('');
        const long = one.repeat(Math.ceil((PART_UNITS * 1.5) / one.length));
        const made = preTokenizer.split(long, place);
        expect('next' in made).toBe(true);
        const pieces = allOf(made);
        // What a short text is cut into, once its beginning and its end are left out, repeats itself in the long one.
        const [few, more] = [12, 13].map((times) => allOf(preTokenizer.split(one.repeat(times), place)));
        const period = (more?.length ?? 0) - (few?.length ?? 0);
        // Where it is one piece, there is nothing to compare.
        fc.pre(period > 0);
        const rounds = Math.ceil((PART_UNITS * 1.5) / one.length) - 12;
        expect(pieces.join('').length).toBe(
          (few?.join('').length ?? 0) + rounds * ((more?.join('').length ?? 0) - (few?.join('').length ?? 0)),
        );
        expect(pieces).toHaveLength((few?.length ?? 0) + rounds * period);
        const begin = Math.min(20, few?.length ?? 0) >> 1;
        expect(pieces.slice(0, begin)).toEqual(few?.slice(0, begin));
        expect(pieces.slice(-begin || pieces.length)).toEqual(few?.slice(-begin || few.length));
      },
    ),
    { numRuns: 60 },
  );
});

test.each([
  ['V8 finds', '[a-z.]', 'a.b1 '],
  ['are matched in steps', String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|.`, '7'],
])('what %s of one long piece comes in batches, and work stops between them', (_, regex, text) => {
  const preTokenizer = createPreTokenizer(guard, split(regex, 'Isolated'));
  const made = preTokenizer.split(text.repeat(60_000 / text.length), 'first');
  const batches = [...('next' in made ? made : [made])].map((batch) => batch?.length ?? 0);
  expect(Math.max(...batches)).toBeLessThan(10_000);
  expect(batches.length).toBeGreaterThan(4);
});

test('the pieces of a text of signs are never all there at once', () => {
  const preTokenizer = createPreTokenizer(guard, {
    type: 'Sequence',
    pretokenizers: [split(String.raw`\s`, 'Removed'), split('[a-z.]', 'Isolated'), { type: 'Digits' }],
  });
  const made = preTokenizer.split('a.b1 '.repeat(100_000), 'first');
  let [count, most] = [0, 0];
  for (const batch of 'next' in made ? made : [made]) {
    count += batch?.length ?? 0;
    most = Math.max(most, batch?.length ?? 0);
  }
  expect(count).toBe(400_000);
  expect(most).toBeLessThan(20_000);
});

test.each([
  [{ type: 'Strip', strip_left: true, strip_right: true }, ' \u0085\u3000', 'a b', 'a b'],
  [{ type: 'Strip', strip_left: false, strip_right: true }, ' \u2003', '\ufeff', undefined],
  [{ type: 'Lowercase' }, 'ΑΣ İ😀', 'Σ', undefined],
] as const)(
  '%j goes through a long text in parts, and makes of it what it makes of its pieces',
  (step, around, middle, expected) => {
    const normalizer = createNormalizer(guard, step);
    const side = around.repeat(PART_UNITS);
    const work = normalizer.normalize(side + middle + side);
    expect(typeof work).toBe('object');
    let stops = 0;
    const counted = (function* () {
      const parts = typeof work === 'string' ? undefined : work;
      for (let next = parts?.next(); ; next = parts?.next()) {
        if (next === undefined || next.done === true) return next?.value ?? '';
        stops += 1;
      }
    })();
    const made = valueOf(counted as Generator<void, string, void>);
    expect(stops).toBeGreaterThan(2);
    if (expected !== undefined) expect(made).toBe(expected);
    else if (step.type === 'Lowercase')
      expect(made).toBe(
        valueOf(normalizer.normalize(around)).repeat(PART_UNITS) +
          'σ' +
          valueOf(normalizer.normalize(around)).repeat(PART_UNITS),
      );
    else expect(made).toBe(side + middle + side.replace(/\p{White_Space}+$/u, ''));
  },
);
