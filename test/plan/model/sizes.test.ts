import { expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { layerElements, type ModelShape } from '../../../src/plan/ModelShape.js';
import { parsePolicy, type Compression } from '../../../src/plan/Policy.js';
import { sizesOf } from '../../../src/plan/model/sizes.js';

const llama = requireKnownShape('llama-2-7b');
const elements = layerElements(llama);
const mixed: ModelShape = {
  ...llama,
  weightType: 'Q6_K',
  weightMix: { Q6_K: 0.5, Q4_K: 0.5 },
  layerWeightBytes: 7e8,
};
const savedBits = (shape: ModelShape, compressWeights: Compression): number => {
  const block = parsePolicy({ compressWeights }, 'p.json');
  const { layerWeightBytes } = sizesOf({ shape, workload: { promptTokens: 8, newTokens: 8 }, block });
  return (8 * (shape.layerWeightBytes - layerWeightBytes)) / elements;
};

test('compression takes bits off the types that have more of them, and leaves the others', () => {
  expect(savedBits(llama, '4bit')).toBeCloseTo(16 - 4.5, 6);
  expect(savedBits(mixed, 'none')).toBe(0);
  expect(savedBits(mixed, '8bit')).toBe(0);
  const q6 = savedBits({ ...mixed, weightMix: { Q6_K: 1 } }, '4bit');
  expect(q6).toBeGreaterThan(2);
  expect(savedBits(mixed, '4bit')).toBeCloseTo(q6 / 2, 6);
  expect(savedBits({ ...mixed, weightType: 'Q4_K', weightMix: { Q4_K: 1 } }, '4bit')).toBe(0);
});
