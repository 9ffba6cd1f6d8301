import { expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { Fields } from '../../../src/model/files/Fields.js';
import { ChainCost } from '../../../src/model/tokenizer/growth.js';
import { createDecoder } from '../../../src/model/tokenizer/decoders.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { createNormalizer } from '../../../src/model/tokenizer/Normalizer.js';
import { createPreTokenizer } from '../../../src/model/tokenizer/PreTokenizer.js';
import { fixture, jsonSource } from './fixtures.js';

type Step = Record<string, unknown>;

const guard = (): Guard => new Guard(new Fields('tokenizer.json'));
const replace = (literal: string, content: string): Step => ({
  type: 'Replace',
  pattern: { String: literal },
  content,
});
const sequence = (list: string, steps: readonly Step[]): Step => ({ type: 'Sequence', [list]: steps });

test('growth multiplies, work adds up, and what shrinks cannot be counted on', () => {
  const cost = new ChainCost();
  cost.step(4);
  cost.step(0.5);
  cost.step(3, 2);
  expect(cost).toMatchObject({ growth: 12, work: 4 + 4 + 24 });
  const before = new ChainCost();
  before.step(2);
  before.chain(cost);
  expect(before).toMatchObject({ growth: 24, work: 2 + 2 * 32 });
  cost.step(Infinity);
  expect(cost.work).toBe(Infinity);
});

test.each([
  [
    'a decoder of replacements that grow',
    createDecoder(
      guard(),
      sequence(
        'decoders',
        Array.from({ length: 12 }, () => replace('a', 'aaaa')),
      ),
    ).cost,
    4 ** 12,
  ],
  [
    'a normalizer of replacements that grow once',
    createNormalizer(guard(), sequence('normalizers', [replace('a', 'a'.repeat(64)), replace('a', 'a')])).cost,
    64,
  ],
  ['a replacement of a long text', createNormalizer(guard(), replace('abcd', 'ab')).cost, 1],
  [
    'a regular expression of which nothing is known',
    createDecoder(guard(), { type: 'Replace', pattern: { Regex: '(a+)+$' }, content: '' }).cost,
    Infinity,
  ],
  [
    'a split at one',
    createPreTokenizer(guard(), { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated' }).cost,
    Infinity,
  ],
])('%s', (_, { growth }, expected) => {
  expect(growth).toBe(expected);
});

test('no chain makes more of a text than its cost says', () => {
  const text = fc
    .array(fc.constantFrom('a', 'b', ' ', 'é', 'ﷺ', '\u0130', '\u{1d160}', '\u0344'), { minLength: 1, maxLength: 20 })
    .map((units) => units.join(''));
  const word = fc.constantFrom('a', 'ab', ' ', 'aaaa', '');
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc
      .constantFrom('NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'Strip', 'StripAccents', 'Nmt')
      .map((type) => ({ type })),
    fc.tuple(fc.constantFrom('a', 'ab', ' '), word).map(([literal, content]) => replace(literal, content)),
    word.map((prepend) => ({ type: 'Prepend', prepend })),
  );
  const cut = fc.constantFrom<Step>(
    { type: 'ByteLevel' },
    { type: 'ByteLevel', use_regex: false },
    { type: 'Punctuation' },
    { type: 'Digits' },
    { type: 'Metaspace' },
    { type: 'Metaspace', replacement: '\u{1f600}' },
  );
  fc.assert(
    fc.property(text, fc.array(step, { maxLength: 3 }), cut, (row, steps, cutting) => {
      const normalizer = createNormalizer(guard(), sequence('normalizers', steps));
      expect(normalizer.normalize(row).length).toBeLessThanOrEqual(row.length * normalizer.cost.growth);
      const preTokenizer = createPreTokenizer(guard(), sequence('pretokenizers', [cutting, { type: 'Digits' }]));
      expect(preTokenizer.split(row, 'first').join('').length).toBeLessThanOrEqual(
        row.length * preTokenizer.cost.growth,
      );
    }),
    { numRuns: 300 },
  );
});

/** Counts how often the clock is set. */
function clocked(work: () => void): number {
  const runs = jest.spyOn(Guard.prototype, 'run');
  work();
  const { length } = runs.mock.calls;
  runs.mockRestore();
  return length;
}

test.each([
  'added-tokens',
  'falcon',
  'gemma',
  'gpt-neox',
  'llama2',
  'llama3',
  'mistral',
  'opt',
  'qwen2',
  'smollm',
  'tekken',
  'unigram',
])('%s: short rows and their answers need no clock', (name) => {
  const { tokenizer, config } = fixture(name);
  const opened = createTokenizer(jsonSource(tokenizer, config), 100_000);
  const row = 'What is the capital of 𝕱rance? É '.repeat(90);
  expect(row.length).toBeGreaterThan(2900);
  expect(clocked(() => void opened.decode(opened.encode(row)))).toBe(0);
});

test('many steps on a long row, or growth on a short one, are under the clock', () => {
  const { tokenizer } = fixture('smollm');
  const open = (normalizer: Step): ReturnType<typeof createTokenizer> =>
    createTokenizer(jsonSource({ ...tokenizer, normalizer }), 2000);
  const steps = open(
    sequence(
      'normalizers',
      Array.from({ length: 64 }, () => replace('a', 'a')),
    ),
  );
  expect(clocked(() => void steps.encode('b'.repeat(100)))).toBe(0);
  expect(clocked(() => void steps.encode('b'.repeat(10_000)))).toBe(1);
  const growing = open(sequence('normalizers', [replace('z', 'z'.repeat(64)), replace('z', 'z'.repeat(64))]));
  expect(clocked(() => void growing.encode('b'.repeat(100)))).toBe(1);
});
