import { expect, test } from '@jest/globals';
import { drained, type Work } from '../../../src/collections/drained.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';
import { planCurves, planCurvesInParts } from '../../../src/plan/document/planCurves.js';
import { planDocument, planDocumentInParts } from '../../../src/plan/document/planDocument.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { chooseBlock, chooseBlockInParts } from '../../../src/plan/search/chooseBlock.js';
import { CPU_MACHINE } from '../support/hardware.js';

const request: PlanRequest = {
  hardware: CPU_MACHINE,
  shape: requireKnownShape('opt-1.3b'),
  workload: { promptTokens: 200, newTokens: 40 },
  allow: { mostBatchSize: 16, mostBatches: 4 },
};
const onCpu = { gpu: 0, cpu: 1, disk: 0 };

/** How often work stops on its way, and what it comes to. */
function stopsOf<T>(work: Work<T>): readonly [stops: number, made: T] {
  for (let stops = 0; ; stops += 1) {
    const step = work.next();
    if (step.done === true) return [stops, step.value];
  }
}

test('the search for a plan, and what is said of it, is made in slices', () => {
  const [stops, document] = stopsOf(planDocumentInParts(request));
  expect(document).toEqual(planDocument(request));
  // A slice looks at a few blocks, of which advice takes searches of its own.
  expect(stops).toBeGreaterThan((document.searched?.blocks ?? 0) / 2);
  const [drawn, curves] = stopsOf(planCurvesInParts(request, document.policy));
  expect(curves).toEqual(planCurves(request, document.policy));
  expect(drawn).toBeGreaterThan(100);
});

test('so is that for the block of settled shares', () => {
  const settled = { cache: onCpu, activations: onCpu };
  const [stops, best] = stopsOf(chooseBlockInParts(request, settled));
  expect(best).toEqual(chooseBlock(request, settled));
  expect(stops).toBeGreaterThan(40);
});

test('and that for the smallest budget of what does not fit', () => {
  const little = { ...request, caps: { cpu: 2 ** 26, disk: 0 } };
  let stops = 0;
  const work = planDocumentInParts(little);
  expect(() => {
    for (; work.next().done !== true; stops += 1);
  }).toThrow(MemoryBudgetError);
  expect(() => drained(planDocumentInParts(little))).toThrow(MemoryBudgetError);
  expect(stops).toBeGreaterThan(10);
});
