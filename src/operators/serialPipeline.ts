import type { StageContext } from '../engine/execution/Run.js';
import { compute } from './compute.js';
import { loadActivation } from './loadActivation.js';
import { loadCache } from './loadCache.js';
import { loadWeight } from './loadWeight.js';
import { serialize } from './serialize.js';
import type { Stage } from './stageInternals.js';
import { storeActivation } from './storeActivation.js';
import { storeCache } from './storeCache.js';
import { synchronize } from './synchronize.js';

/** The stages of `defaultPipeline` one after another, nothing overlapping: what `--overlap off` measures against. */
export function serialPipeline(run: StageContext): Stage {
  return serialize(
    loadWeight(run),
    loadCache(run),
    loadActivation(run),
    compute(run),
    storeActivation(run),
    storeCache(run),
    synchronize(run),
  );
}
