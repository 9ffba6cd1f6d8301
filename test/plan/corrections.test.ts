import { expect, test } from '@jest/globals';
import { MATMUL_WEIGHTS } from '../../src/plan/HardwareProfile.js';
import { computeFactor, computeKind, WORK_KIND } from '../../src/plan/corrections.js';

const decode = (tokens: number): { promptTokens: number; decodeRows: number } => ({
  promptTokens: 0,
  decodeRows: tokens,
});

test('sizes are joined in logarithms, and what was not seen is corrected the less the further off it is', () => {
  const corrections = { 'compute.decode.q4.16': 2, 'compute.decode.q4.64': 0.5 };
  expect(computeFactor(corrections, 'q4', decode(16))).toBeCloseTo(2, 9);
  expect(computeFactor(corrections, 'q4', decode(64))).toBeCloseTo(0.5, 9);
  expect(computeFactor(corrections, 'q4', decode(32))).toBeCloseTo(1, 9);
  expect(computeFactor(corrections, 'q4', decode(4))).toBeCloseTo(2 ** 0.5, 9);
  expect(computeFactor(corrections, 'q4', decode(1))).toBeCloseTo(2 ** 0.25, 9);
  expect(computeFactor(corrections, 'q4', decode(256))).toBeCloseTo(0.5 ** 0.5, 9);
});

test('other weights, the other phase, squares without tokens and a machine of which nothing was learned are not corrected', () => {
  const corrections = { 'compute.decode.q4.64': 2, between: 3, 'disk.read': 3 };
  expect(computeFactor(corrections, 'q8', decode(64))).toBe(1);
  expect(computeFactor(corrections, 'q4_k', decode(64))).toBe(1);
  expect(computeFactor(corrections, 'q4', { promptTokens: 64, decodeRows: 0 })).toBe(1);
  expect(computeFactor(corrections, 'q4', decode(0))).toBe(1);
  expect(computeFactor(undefined, 'q4', decode(64))).toBe(1);
  // Both phases in one square: by their tokens.
  expect(computeFactor(corrections, 'q4', { promptTokens: 48, decodeRows: 16 })).toBeCloseTo(0.75 + 0.25 * 2, 9);
});

test.each(MATMUL_WEIGHTS)('computing with %s is a kind of work that may be kept', (weights) => {
  expect(computeKind('decode', weights, 64)).toMatch(WORK_KIND);
});

test('a square belongs to the nearest size', () => {
  const sizes = [0.3, 1, 2.1, 8.1, 31, 33, 200, 512, 600, 5e6].map((tokens) => computeKind('prefill', 'f16', tokens));
  expect(sizes.map((kind) => Number(kind.split('.').at(-1)))).toEqual([1, 1, 4, 16, 16, 64, 256, 1024, 1024, 4096]);
});
