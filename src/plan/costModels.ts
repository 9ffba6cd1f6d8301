import type { CostModel, CostModelName } from './CostModel.js';
import { flexgenModel } from './papers/flexgen/flexgenModel.js';
import { flexgenPaperModel } from './papers/flexgen/flexgenPaperModel.js';
import { lmOffloadModel } from './papers/lmOffload/lmOffloadModel.js';
import { spillwayModel } from './model/spillwayModel.js';
import { heldToRoofline } from './roofline.js';

export const COST_MODELS: Readonly<Record<CostModelName, CostModel>> = {
  spillway: spillwayModel,
  flexgen: flexgenModel,
  'flexgen-paper': flexgenPaperModel,
  'lm-offload': lmOffloadModel,
};

/**
 * The model that a request means, held to the machine's roofline.
 * @param given one of those by its name, or the caller's own
 */
export function costModelOf(given: CostModelName | CostModel = 'spillway'): CostModel {
  const model = typeof given === 'string' ? COST_MODELS[given] : given;
  const { name, schedules, cpuAttention } = model;
  return {
    name,
    schedules,
    ...(cpuAttention && { cpuAttention }),
    shareStep: (setting) => model.shareStep(setting),
    blocks: (setting) => model.blocks(setting).map((cost) => heldToRoofline(cost, setting)),
    blockAt: (setting, placement) => heldToRoofline(model.blockAt(setting, placement), setting),
  };
}
