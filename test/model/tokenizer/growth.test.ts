import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import type { Pattern } from '../../../src/model/tokenizer/compilePattern.js';
import { checkGrowth, LimitError, mostGrown, replaceMatches } from '../../../src/model/tokenizer/growth.js';
import { RowError } from '../../../src/errors/RowError.js';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { Steps } from '../../../src/regex/Steps.js';
import { jsonSource } from './fixtures.js';
import { liveHeapBytes } from '../../support/liveHeapBytes.js';

const STEPS = (): Steps => new Steps(2 ** 24);
const pattern = (regex: RegExp): Pattern => ({ field: 'decoder.pattern', regex });

test.each([
  ['short texts', 10],
  ['texts whose result is counted', 300_000],
])('replaces as JavaScript does, in %s', (_, size) => {
  const unit = fc.constantFrom('a', 'b', '😀', ' ');
  fc.assert(
    fc.property(
      fc.constantFrom(/a/gu, /a*/gu, /(?:)/gu, /(?=b)/gu, /[^a]+/gu, /😀|$/gu),
      fc.array(unit, { maxLength: 20 }),
      fc.constantFrom('', 'x', '$&'),
      (regex, parts, content) => {
        const text = `${parts.join('')}${'b'.repeat(size)}${parts.join('')}`;
        expect(replaceMatches(text, pattern(regex), content, STEPS()) === text.replace(regex, () => content)).toBe(
          true,
        );
      },
    ),
    { numRuns: size > 1000 ? 12 : 200 },
  );
});

test('what would grow beyond the bound is refused before it is there', () => {
  const text = 'ab'.repeat(500_000);
  expect(() => replaceMatches(text, pattern(/a/gu), 'x'.repeat(64), STEPS())).toThrow(LimitError);
  expect(() => replaceMatches(text, pattern(/a/gu), 'x'.repeat(64), STEPS())).toThrow(
    /^decoder.pattern: found a text that grows from 1000000 to \d+ UTF-16 units, expected at most 8194304$/,
  );
  expect(replaceMatches(text, pattern(/a/gu), 'x'.repeat(8), STEPS())).toHaveLength(4_500_000);
});

test('short texts may grow 64 times, long ones four times and a little', () => {
  expect(mostGrown(100)).toBe(64 * 164);
  expect(mostGrown(10_000_000)).toBe(44_194_304);
  expect(() => checkGrowth('normalizer', 100, 64 * 164)).not.toThrow();
  expect(() => checkGrowth('normalizer', 100, 64 * 164 + 1)).toThrow(
    'normalizer: found a text that grows from 100 to 10497 UTF-16 units, expected at most 10496',
  );
});

test('a text of millions of matches is put together in little more memory than it takes', () => {
  const text = 'a'.repeat(4_000_000);
  const before = liveHeapBytes();
  const replaced = replaceMatches(text, pattern(/a/gu), 'b', STEPS());
  // A tree of its pieces takes 60 bytes a match, and is what `+=` makes.
  expect(liveHeapBytes() - before).toBeLessThan(80_000_000);
  expect(replaced === 'b'.repeat(4_000_000)).toBe(true);
});

describe('what grows from step to step is ended before it is large', () => {
  const replace = (content: string): Record<string, unknown> => ({
    type: 'Replace',
    pattern: { String: 'a' },
    content,
  });
  const open = (more: Record<string, unknown>): Tokenizer =>
    createTokenizer(jsonSource({ model: { type: 'BPE', vocab: { a: 0, aaaa: 1 }, merges: [] }, ...more }), 100_000);
  const limit = (work: () => unknown): string => {
    const start = process.cpuUsage();
    try {
      work();
    } catch (error) {
      expect(error).toBeInstanceOf(RowError);
      const { user, system } = process.cpuUsage(start);
      // Steps are what bounds it: some three seconds of a new processor, and not minutes of any.
      expect(user + system).toBeLessThan(30_000_000);
      return (error as RowError).message;
    }
    throw new Error('expected a refusal');
  };
  const decoders = (steps: readonly unknown[]): Tokenizer => open({ decoder: { type: 'Sequence', decoders: steps } });

  test.each([5, 14, 64])('%d decoders that each make a text 30 times as long', (count) => {
    const tokenizer = decoders(Array.from({ length: count }, () => replace('a'.repeat(30))));
    expect(limit(() => tokenizer.stream().push(1))).toMatch(
      /^tokenizer.json: decoder: found an answer of \d+ UTF-16 units, expected at most 1048832 for its tokens$/,
    );
    expect(limit(() => tokenizer.decode([1, 1, 1]))).toContain('decoder: found an answer of');
  });

  test('decoders between which a text is long, of an answer that is short', () => {
    const tokenizer = decoders([
      replace('a'.repeat(64)),
      replace('a'.repeat(64)),
      ...Array.from({ length: 61 }, () => replace('a')),
      replace(''),
    ]);
    const stream = tokenizer.stream();
    expect(stream.push(0)).toBe('');
    expect(limit(() => Array.from({ length: 2000 }, () => stream.push(1)))).toMatch(
      /decoder: found (an answer of \d+ UTF-16 units|\d+ UTF-16 units in all that its steps make of one answer)/,
    );
  });

  test('a usual chain decodes an answer as long as answers may be', () => {
    const steps = [
      { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' },
      { type: 'Fuse' },
      { type: 'Strip', content: ' ', start: 1, stop: 0 },
    ];
    const tokens = Array.from({ length: 200_000 }, () => 1);
    expect(decoders(steps).decode(tokens)).toHaveLength(800_000);
  });

  test('a normalizer of many steps on an ordinary row', () => {
    const tokenizer = open({
      normalizer: {
        type: 'Sequence',
        normalizers: [replace('a'.repeat(64)), ...Array.from({ length: 20 }, () => replace('a'))],
      },
    });
    expect(limit(() => tokenizer.encode('a'.repeat(65_000)))).toMatch(
      /normalizer.*did not come to an end within 50057216 steps/,
    );
    expect(tokenizer.encode('aa')).toHaveLength(128);
  });

  test('a normalizer on thousands of texts between added tokens', () => {
    const tokenizer = open({
      normalizer: { type: 'Sequence', normalizers: [replace('a'.repeat(64)), replace('a'.repeat(60))] },
      added_tokens: [{ id: 9, content: 'x', normalized: false }],
    });
    expect(limit(() => tokenizer.encode('ax'.repeat(30_000)))).toMatch(
      /normalizer: found a text that grows from 60000 to \d+ UTF-16 units|did not come to an end/,
    );
  });

  test('added tokens that a normalizer makes long', () => {
    const added_tokens = Array.from({ length: 20_000 }, (_, id) => ({
      id: id + 2,
      content: `${'a'.repeat(50)}${id}`,
      normalized: true,
    }));
    expect(() => open({ normalizer: replace('a'.repeat(64)), added_tokens })).toThrow(
      'tokenizer.json: added_tokens: found more than 4194304 UTF-16 units once they are normalized',
    );
  });
});
