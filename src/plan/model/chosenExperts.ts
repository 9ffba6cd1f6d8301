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

/** Gives the share of what streams of a layer that is read for so many tokens: of a model without experts all of it. */
export function shareOfLayerRead(shape: ModelShape, tokens: number): number {
  const { experts } = shape;
  if (!experts) return 1;
  const share = (feedForwardElements(shape) * experts.count) / layerElements(shape);
  return 1 - share * (1 - shareOfExpertsRead(experts, tokens));
}
