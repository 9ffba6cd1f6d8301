import { identity } from 'rxjs';
import type { StageContext } from '../../src/engine/execution/Run.js';
import { compute } from '../../src/operators/compute.js';
import { loadActivation } from '../../src/operators/loadActivation.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { overlap } from '../../src/operators/overlap.js';
import { serialize } from '../../src/operators/serialize.js';
import type { Stage } from '../../src/operators/stageInternals.js';
import { storeActivation } from '../../src/operators/storeActivation.js';
import { storeCache } from '../../src/operators/storeCache.js';
import { synchronize } from '../../src/operators/synchronize.js';
import { randomNumbers } from './randomSchedule.js';

/** Steps that each stage may run ahead. */
export interface Aheads {
  readonly weights: number;
  readonly cache: number;
  readonly activations: number;
}

/**
 * The public operators composed at random, in any way that is valid: loads in any order, then compute, then stores in
 * any order; groups of them overlapping or in series, nested.
 */
export function randomPipeline(seed: number, { weights, cache, activations }: Aheads): (run: StageContext) => Stage {
  return (run) => {
    const random = randomNumbers(seed);
    const shuffled = (stages: readonly Stage[]): Stage[] =>
      stages
        .map((each) => ({ each, at: random() }))
        .sort((a, b) => a.at - b.at)
        .map(({ each }) => each);
    const loads = shuffled([
      loadWeight(run, { ahead: weights }),
      loadCache(run, { ahead: cache }),
      loadActivation(run, { ahead: activations }),
    ]);
    const stores = shuffled([storeActivation(run), storeCache(run)]);
    return overlap(grouped([...loads, compute(run), ...stores], random), synchronize(run));
  };
}

function grouped(stages: readonly Stage[], random: () => number): Stage {
  if (stages.length <= 1) return stages[0] ?? identity;
  const cut = 1 + Math.floor(random() * (stages.length - 1));
  const kind = random();
  const parts = kind < 0.25 ? stages : [grouped(stages.slice(0, cut), random), grouped(stages.slice(cut), random)];
  return kind < 0.8 ? overlap(...parts) : serialize(...parts);
}
