import { UsageError } from '../../errors/UsageError.js';
import type { CostModel } from './CostModel.js';
import { flexgenModel } from './flexgen/flexgenModel.js';
import { lmOffloadModel } from './lmOffload/lmOffloadModel.js';
import { spillwayModel } from './spillway/spillwayModel.js';

export const COST_MODELS: Readonly<Record<CostModel['name'], CostModel>> = { spillway: spillwayModel, flexgen: flexgenModel, 'lm-offload': lmOffloadModel };

/** @throws UsageError for a name that is none */
export function costModelOf(name: string): CostModel {
  const model = Object.hasOwn(COST_MODELS, name) ? COST_MODELS[name as CostModel['name']] : undefined;
  if (model === undefined) throw new UsageError(`cost model: found ${JSON.stringify(name)}, expected one of ${Object.keys(COST_MODELS).join(', ')}`);
  return model;
}
