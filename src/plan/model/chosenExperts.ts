import { feedForwardElements, layerElements, type ModelShape } from '../ModelShape.js';
import { expertsTouched } from './computeSeconds.js';

/** Above this share of a layer's experts all of them are read: then in one go, while the layer before is computed. */
const MOST_CHOSEN = 3 / 4;

/**
 * Gives the share of a layer's experts that is read from disk for so many tokens: those that are expected to be chosen,
 * if these are few, once they have been; else all.
 */
export function shareOfExpertsRead(
  experts: Pick<NonNullable<ModelShape['experts']>, 'count' | 'perToken'>,
  tokens: number,
): number {
  const share = expertsTouched(experts, tokens) / experts.count;
  return share > MOST_CHOSEN ? 1 : share;
}

/**
 * Gives the shares of what streams of a layer that are read for so many tokens: in all, and by the tasks that compute,
 * which wait for the experts that their tokens go to. Of a model without experts all is read ahead.
 */
export function sharesOfLayerRead(
  shape: ModelShape,
  tokens: number,
): { readonly all: number; readonly byTasks: number } {
  const { experts } = shape;
  if (!experts) return { all: 1, byTasks: 0 };
  const share = (feedForwardElements(shape) * experts.count) / layerElements(shape);
  const chosen = shareOfExpertsRead(experts, tokens);
  return { all: 1 - share * (1 - chosen), byTasks: chosen < 1 ? share * chosen : 0 };
}
