import { attentionElements, feedForwardElements, type ModelShape } from '../ModelShape.js';
import type { Collective } from './Collective.js';
import { chipsAlong } from './Mesh.js';
import { ACTIVATION_BYTES, LAYOUTS, WEIGHT_FORMATS, type Layout, type Partitioning } from './Partitioning.js';

/** Heads, filled up so that chips have as many of them each: 48 become 64 on 64 chips (Pope et al., section 4). */
export function paddedHeads(heads: number, chips: number): number {
  const parts = Math.min(chips, 2 ** Math.ceil(Math.log2(heads)));
  return Math.ceil(heads / parts) * parts;
}

/** The model as it is split over so many chips: with the heads that they compute. */
export function paddedShape(shape: ModelShape, chips: number): ModelShape {
  const heads = paddedHeads(shape.heads, chips);
  // Heads of multihead attention have keys and values of their own.
  return { ...shape, heads, kvHeads: shape.kvHeads === shape.heads ? heads : shape.kvHeads };
}

/**
 * The collectives of one layer (Pope et al., sections 3.2 to 3.4, figures 2, 5 and A.2), for so many tokens of the
 * whole batch. A feed-forward block with a gate has one more matrix before the non-linearity, whose sums are scattered,
 * too. Parallel layers share the collectives of attention and feed-forward block. Pure.
 * @param shape with the heads that are computed (`paddedShape`)
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
