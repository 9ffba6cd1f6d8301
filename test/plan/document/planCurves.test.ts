import { expect, test } from '@jest/globals';
import { planCurves } from '../../../src/plan/document/planCurves.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { CPU_MACHINE } from '../support/hardware.js';

/** Operations a second that the disk allows where one token shares a reading of the weights. */
function linkAtOneToken(model: string, compressWeights: 'none' | '4bit'): number {
  const request = {
    hardware: CPU_MACHINE,
    shape: { ...requireKnownShape(model), layers: 2 },
    workload: { promptTokens: 16, newTokens: 16, rows: 4 },
  };
  return planCurves(request, parsePolicy({ compressWeights }, 'test')).roofline.link[0] ?? NaN;
}

test('the roofline of computing: of two kinds of weights, as long as both take', () => {
  const matmul = [
    { weights: 'q4_k' as const, tokens: 1, flopsPerSecond: 4e11 },
    { weights: 'q6_k' as const, tokens: 1, flopsPerSecond: 2e11 },
  ];
  const request = {
    hardware: { ...CPU_MACHINE, cpu: { ...CPU_MACHINE.cpu, matmul } },
    shape: {
      ...requireKnownShape('llama-2-7b'),
      layers: 2,
      weightType: 'Q4_K' as const,
      weightMix: { Q4_K: 0.5, Q6_K: 0.5 },
    },
    workload: { promptTokens: 16, newTokens: 16, rows: 4 },
  };
  const compute = (compressWeights: 'none' | '4bit'): number | undefined =>
    planCurves(request, parsePolicy({ compressWeights }, 'test')).roofline.compute[0];
  expect(compute('none')).toBeCloseTo(1 / (0.5 / 4e11 + 0.5 / 2e11));
  expect(compute('4bit')).toBe(4e11);
});

test('the roofline of reading weights: fewer bits allow more, experts that a token does not go to less', () => {
  const { links } = CPU_MACHINE;
  // Two operations a weight of 16 bits.
  const plain = linkAtOneToken('llama-2-7b', 'none');
  expect(plain / (links.diskReadBytesPerSecond ?? NaN)).toBeCloseTo(1, 1);
  expect(linkAtOneToken('llama-2-7b', '4bit') / plain).toBeGreaterThan(3);
  // Two of eight experts, beside attention; eight of 128.
  expect(plain / linkAtOneToken('mixtral-8x7b', 'none')).toBeGreaterThan(3);
  expect(plain / linkAtOneToken('qwen3-30b-a3b', 'none')).toBeGreaterThan(10);
});
