import type { StageContext } from '../engine/execution/Run.js';
import { compute } from './compute.js';
import { loadActivation } from './loadActivation.js';
import { loadCache } from './loadCache.js';
import { loadWeight } from './loadWeight.js';
import { overlap } from './overlap.js';
import type { Stage } from './stageInternals.js';
import { storeActivation } from './storeActivation.js';
import { storeCache } from './storeCache.js';
import { synchronize } from './synchronize.js';

/** The stages of a square, everything overlapping that can (FlexGen, algorithm 1). */
export function defaultPipeline(run: StageContext): Stage {
  return overlap(
    loadWeight(run),
    loadCache(run),
    loadActivation(run),
    compute(run),
    storeActivation(run),
    storeCache(run),
    synchronize(run),
  );
}
