import { describe, expect, test } from '@jest/globals';
import { beginOf, acceptBegin, type PeerFacts } from '../../../src/engine/peers/begin.js';

const facts = (first: number, sharesPages: boolean, slots = 1, streams = false): PeerFacts => ({
  model: { layers: 3, hiddenSize: 8, vocabularySize: 9, family: 'llama', contents: 'a1' },
  layers: { first, count: 1 },
  grid: { slots, rowsPerSlot: 1, tokensPerSquare: 8 },
  streams,
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

test('engines are counted, use as many slots as all of them have, and say whether one of them streams weights', () => {
  const begun = beginOf(facts(0, true, 4));
  expect(begun).toMatchObject({ engines: 1, grid: { slots: 4 }, streams: false });
  const second = acceptBegin(begun, facts(1, true, 2, true));
  expect(second).toMatchObject({ engines: 2, grid: { slots: 2 }, streams: true });
  expect(acceptBegin(second, facts(2, true, 8))).toMatchObject({ engines: 3, grid: { slots: 2 }, streams: true });
});

test('a row comes to GPUs with no more pages than each of them has room for', () => {
  const fetching = (first: number, mostFetchedPages?: number): PeerFacts => {
    const { cache, ...rest } = facts(first, false);
    return { ...rest, cache: { ...cache, ...(mostFetchedPages !== undefined && { mostFetchedPages }) } };
  };
  const round = (...each: readonly (number | undefined)[]): number | undefined => {
    const [first, ...later] = each.map((most, layer) => fetching(layer, most));
    if (!first) throw new RangeError('no engines');
    return later.reduce(acceptBegin, beginOf(first)).cache.mostFetchedPages;
  };
  expect(round(undefined, undefined, undefined)).toBeUndefined();
  expect(round(undefined, 5, undefined)).toBe(5);
  expect(round(7, undefined, 6)).toBe(6);
  expect(round(3, 4, 5)).toBe(3);
});

describe('engines that share each layer', () => {
  const shared = (index: number, of: number): PeerFacts => ({
    ...facts(0, true),
    layers: { first: 0, count: 3 },
    share: { index, of },
  });

  test('follow one another', () => {
    const begun = acceptBegin(beginOf(shared(0, 3)), shared(1, 3));
    expect(begun).toMatchObject({ engines: 2, nextLayer: 3, share: { next: 2, of: 3 } });
    expect(acceptBegin(begun, shared(2, 3))).toMatchObject({ engines: 3, share: { next: 3, of: 3 } });
  });

  test.each([
    [shared(0, 3), shared(2, 3), 'next share: found 1, expected 2 as in the engine of share 2 of 3'],
    [shared(0, 2), shared(1, 3), 'tensorParallel.of: found 2, expected 3'],
    [facts(0, true), shared(1, 3), 'tensorParallel.of: found none, expected 3'],
    [shared(0, 3), facts(1, true), 'tensorParallel.of: found 3, expected none'],
  ])('not others', (first, second, message) => {
    expect(() => acceptBegin(beginOf(first), second)).toThrow(message);
  });
});
