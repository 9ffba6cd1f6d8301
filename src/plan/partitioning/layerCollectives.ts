import { attentionElements, feedForwardElements, type ModelShape } from '../ModelShape.js';
import type { Collective } from './Collective.js';
import { chipsAlong } from './Mesh.js';
import { ACTIVATION_BYTES, LAYOUTS, WEIGHT_FORMATS, type Layout, type Partitioning } from './Partitioning.js';

/**
 * Heads, filled up so that chips have as many of them each, or as many chips share each: 48 become 64 on 64 chips (Pope
 * et al., section 4).
 * @param headDim into so many parts a head can be divided; default: any number, as chips may have copies
 */
export function paddedHeads(heads: number, chips: number, headDim = Infinity): number {
  const whole = Math.ceil(heads / chips) * chips;
  for (let filled = heads; filled < whole; filled++) {
    const sharing = chips / filled;
    if (Number.isInteger(sharing) && (headDim === Infinity || headDim % sharing === 0)) return filled;
  }
  return whole;
}

/**
 * The model as it is split over so many chips: heads, and whatever else is split, filled up to what each chip has as
 * much of. Width and columns are multiples of all chips in any layout, as activations are split over all of them
 * between blocks, and both phases share the weights.
 */
export function paddedShape(shape: ModelShape, chips: number): ModelShape {
  const filled = (size: number): number => Math.ceil(size / chips) * chips;
  const [hiddenSize, vocabularySize] = [filled(shape.hiddenSize), filled(shape.vocabularySize)];
  // Heads stay with the keys and values that they look at.
  const kvHeads = paddedHeads(shape.kvHeads, chips);
  const group = paddedHeads(Math.ceil(shape.heads / shape.kvHeads), Math.max(1, chips / kvHeads), shape.headDim);
  return {
    ...shape,
    hiddenSize,
    vocabularySize,
    feedForwardSize: filled(shape.feedForwardSize),
    heads: kvHeads * group,
    kvHeads,
    globalWeightBytes:
      shape.globalWeightBytes * ((hiddenSize * vocabularySize) / (shape.hiddenSize * shape.vocabularySize)),
  };
}

/**
 * The collectives of one layer (Pope et al., sections 3.2 to 3.4, figures 2, 5 and A.2), for so many tokens of the
 * whole batch. A feed-forward block with a gate has one more matrix before the non-linearity, whose sums are scattered,
 * too. Parallel layers share the collectives of attention and feed-forward block. Pure.
 * @param shape as it is split (`paddedShape`)
 */
export function layerCollectives(
  shape: ModelShape,
  { mesh, layout, attention, weights }: Partitioning,
  tokens: number,
): Collective[] {
  const { gathered, columns, width }: Layout = LAYOUTS[layout];
  const { hiddenSize, feedForwardSize, feedForwardMatrices, heads, kvHeads, headDim } = shape;
  const bytes = tokens * ACTIVATION_BYTES;
  const queries = heads * headDim;
  const keysAndValues = 2 * kvHeads * headDim;
  const chips = chipsAlong(mesh);

  /** A block's way in and out: from activations split over all chips to its columns, and back. */
  const block = (inColumns: number, outColumns: number, between: readonly Collective[] = []): Collective[] => {
    const batched = bytes / chipsAlong(mesh, gathered);
    const side = (batched * hiddenSize) / chipsAlong(mesh, width);
    const inner = batched / chipsAlong(mesh, columns);
    return [
      { kind: 'all-gather', axes: columns, bytes: side },
      { kind: 'reduce-scatter', axes: width, bytes: inner * inColumns },
      ...between,
      { kind: 'all-gather', axes: width, bytes: inner * outColumns },
      { kind: 'reduce-scatter', axes: columns, bytes: side },
    ];
  };

  const inColumns = queries + keysAndValues;
  const toBatch: Collective[] =
    attention === 'batch'
      ? [inColumns, queries].map((each) => ({
          kind: 'all-to-all',
          axes: [...columns, ...width],
          bytes: (bytes * each) / chips,
        }))
      : [];
  const fedIn = (feedForwardMatrices - 1) * feedForwardSize;
  const layer =
    shape.residual === 'parallel'
      ? block(inColumns + fedIn, queries + feedForwardSize, toBatch)
      : [...block(inColumns, queries, toBatch), ...block(fedIn, feedForwardSize)];
  const elements = attentionElements(shape) + feedForwardElements(shape);
  const share = chipsAlong(mesh, gathered) / chips;
  return [
    { kind: 'all-gather' as const, axes: gathered, bytes: elements * share * WEIGHT_FORMATS[weights] },
    ...layer,
  ].filter(({ axes, bytes: moved }) => moved > 0 && chipsAlong(mesh, axes) > 1);
}
