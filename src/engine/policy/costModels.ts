import type { CostModel } from './CostModel.js';
import { flexgenModel } from './flexgen/flexgenModel.js';
import { lmOffloadModel } from './lmOffload/lmOffloadModel.js';
import { spillwayModel } from './spillway/spillwayModel.js';

export const COST_MODELS: Readonly<Record<CostModel['name'], CostModel>> = {
  spillway: spillwayModel,
  flexgen: flexgenModel,
  'lm-offload': lmOffloadModel,
};
