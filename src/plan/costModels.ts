import type { CostModel } from './CostModel.js';
import { flexgenModel } from './papers/flexgen/flexgenModel.js';
import { lmOffloadModel } from './papers/lmOffload/lmOffloadModel.js';
import { spillwayModel } from './model/spillwayModel.js';

export const COST_MODELS: Readonly<Record<CostModel['name'], CostModel>> = {
  spillway: spillwayModel,
  flexgen: flexgenModel,
  'lm-offload': lmOffloadModel,
};
