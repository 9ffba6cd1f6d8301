import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { didYouMean, nearest } from '../../src/arguments/nearest.js';

const NAMES = ['maxNewTokens', 'temperature', 'topP', 'seed', 'smollm2-135m-instruct'];

test.each([
  ['temprature', 'temperature'],
  ['tempertaure', 'temperature'],
  ['max_new_tokens', 'maxNewTokens'],
  ['maxnewtoken', 'maxNewTokens'],
  ['TOP_P', 'topP'],
  ['smollm2-135m', 'smollm2-135m-instruct'],
  ['smolm2-135m-instrct', 'smollm2-135m-instruct'],
  ['sede', 'seed'],
])('%s means %s', (word, name) => {
  expect(nearest(word, NAMES)).toBe(name);
});

test.each(['', 'x', 'priority', 'label', 'llama-3-70b', 'y'.repeat(10_000)])('%p is near to none', (word) => {
  expect(nearest(word, NAMES)).toBeUndefined();
  expect(didYouMean(word, NAMES)).toBe('');
});

test('a name means itself, and so does one with a letter lost', () => {
  fc.assert(
    fc.property(fc.constantFrom(...NAMES), fc.nat(), (name, nth) => {
      const at = nth % name.length;
      expect(nearest(name, NAMES)).toBe(name);
      expect(nearest(name.slice(0, at) + name.slice(at + 1), NAMES)).toBe(name);
    }),
  );
});
