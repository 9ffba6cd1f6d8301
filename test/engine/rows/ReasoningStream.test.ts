import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { splitReasoning } from '../../../src/engine/rows/reasoning.js';
import { ReasoningStream } from '../../../src/engine/rows/ReasoningStream.js';
import { tries } from '../../support/tries.js';

const MARKS = { start: '<think>', end: '</think>' };
const piece = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('<think>', '</think>', '<th', 'ink>', '</', '</think', '>', '<', 'think') },
  { weight: 3, arbitrary: fc.constantFrom(' ', '\n', '\t ', '  ') },
  { weight: 2, arbitrary: fc.constantFrom('a', 'so it is', 'é', '😀') },
);

test('whatever pieces a text comes in, its parts are put together what the whole text is split into', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), fc.boolean(), (pieces, open) => {
      const stream = new ReasoningStream(MARKS, open);
      const parts = [...pieces.map((each) => stream.push(each)), stream.end()];
      const whole = splitReasoning(pieces.join(''), MARKS, open);
      expect(parts.map(({ text }) => text).join('')).toBe(whole.text);
      expect(parts.map(({ reasoning }) => reasoning).join('')).toBe(whole.reasoning ?? '');
      expect(stream.hasBegun).toBe(whole.reasoning !== undefined);
      // Nothing is left out.
      expect(parts.map(({ thought }) => thought).join('') + whole.text).toBe(pieces.join(''));
    }),
    { numRuns: tries(3000, 100_000) },
  );
});

test('text is given as soon as it is certain', () => {
  const stream = new ReasoningStream(MARKS, false);
  expect(stream.push(' <think> first')).toEqual({ reasoning: 'first', text: '', thought: ' <think> first' });
  expect(stream.push(' then')).toEqual({ reasoning: ' then', text: '', thought: ' then' });
  expect(stream.push(' </thi')).toEqual({ reasoning: '', text: '', thought: '' });
  expect(stream.push('nk>\n\n')).toEqual({ reasoning: '', text: '', thought: ' </think>\n\n' });
  expect(stream.push('so ')).toEqual({ reasoning: '', text: 'so ', thought: '' });
  expect(stream.push('it is')).toEqual({ reasoning: '', text: 'it is', thought: '' });
});
