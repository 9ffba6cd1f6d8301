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
