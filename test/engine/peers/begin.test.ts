import { expect, test } from '@jest/globals';
import { beginOf, acceptBegin, type PeerFacts } from '../../../src/engine/peers/begin.js';

const facts = (first: number, sharesPages: boolean): PeerFacts => ({
  model: { layers: 3, hiddenSize: 8, vocabularySize: 9, family: 'llama', contents: 'a1' },
  layers: { first, count: 1 },
  grid: { slots: 1, rowsPerSlot: 1, tokensPerSquare: 8 },
  cache: { pageTokens: 4, diskShare: 0, mostDiskPages: 0 },
  pages: { gpu: 0, memory: 4, disk: 0 },
  sharesPages,
});

const CASES = [
  [true, true, true],
  [true, false, true],
  [false, true, true],
  [true, true, false],
];

test.each(CASES)('pages are shared where all engines can: %j, %j, %j', (...each) => {
  const [first, ...later] = each.map((shares, layer) => facts(layer, shares));
  if (!first) throw new RangeError('no engines');
  expect(later.reduce(acceptBegin, beginOf(first)).sharesPages).toBe(each.every(Boolean));
});
