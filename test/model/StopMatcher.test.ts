import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { StopMatcher } from '../../src/model/StopMatcher.js';
import { cpuSeconds } from './support/expectBounded.js';

/** The text before the first occurrence of any stop string, and whether there is one. */
function naive(text: string, stops: readonly string[]): { text: string; stopped: boolean } {
  const at = stops
    .filter((stop) => stop !== '')
    .map((stop) => text.indexOf(stop))
    .filter((index) => index >= 0);
  return at.length === 0 ? { text, stopped: false } : { text: text.slice(0, Math.min(...at)), stopped: true };
}

function run(pieces: readonly string[], stops: readonly string[]): { text: string; stopped: boolean } {
  const matcher = new StopMatcher(stops);
  let text = '';
  for (const piece of pieces) {
    const match = matcher.push(piece);
    text += match.text;
    if (match.stopped) return { text, stopped: true };
  }
  const match = matcher.end();
  return { text: text + match.text, stopped: match.stopped };
}

const few = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 6 });

test('equals the first indexOf, however the text is cut', () => {
  fc.assert(
    fc.property(fc.array(few, { maxLength: 12 }), fc.array(few, { maxLength: 4 }), (pieces, stops) => {
      expect(run(pieces, stops)).toEqual(naive(pieces.join(''), stops));
    }),
    { numRuns: 5000 },
  );
});

test('holds back no more than could begin a stop string', () => {
  fc.assert(
    fc.property(fc.array(few, { maxLength: 12 }), fc.array(few, { minLength: 1, maxLength: 4 }), (pieces, stops) => {
      const matcher = new StopMatcher(stops);
      let read = '';
      let given = '';
      for (const piece of pieces) {
        read += piece;
        const match = matcher.push(piece);
        given += match.text;
        if (match.stopped || naive(read, stops).stopped) return;
        const open = stops
          .flatMap((stop) => Array.from(stop, (_, size) => stop.slice(0, size)))
          .filter((start) => read.endsWith(start));
        const longest = Math.max(0, ...open.map((start) => start.length));
        expect(given).toBe(read.slice(0, read.length - longest));
      }
    }),
    { numRuns: 2000 },
  );
});

test('a stop string that may lie inside a longer, earlier one waits for it', () => {
  const stops = ['abcd', 'bc'];
  expect(run(['ab', 'c', 'd'], stops)).toEqual({ text: '', stopped: true });
  expect(run(['ab', 'c', 'e'], stops)).toEqual({ text: 'a', stopped: true });
  expect(run(['ab', 'c'], stops)).toEqual({ text: 'a', stopped: true });
  const matcher = new StopMatcher(stops);
  expect(matcher.push('xabc')).toEqual({ text: '', stopped: false });
});

test('without stop strings everything passes at once', () => {
  const matcher = new StopMatcher(['']);
  expect(matcher.push('abc')).toEqual({ text: 'abc', stopped: false });
  expect(matcher.end()).toEqual({ text: '', stopped: false });
});

test('a thousand stop strings over a megabyte take one pass', () => {
  const stops = Array.from({ length: 1000 }, (_, i) => `${'a'.repeat(50)}${i}!`);
  const matcher = new StopMatcher(stops);
  const start = process.cpuUsage();
  let size = 0;
  for (let i = 0; i < 10_000; i++) size += matcher.push('a'.repeat(100)).text.length;
  size += matcher.end().text.length;
  expect(size).toBe(1_000_000);
  // Comparing each stop string at each place would take 5e10 steps.
  expect(cpuSeconds(start)).toBeLessThan(10);
});
