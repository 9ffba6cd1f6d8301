import type { AxisName, Mesh } from './Mesh.js';

/** How the matrices of a layer and the activations beside them are split (Pope et al., section 3.2). */
export interface Layout {
  readonly words: string;
  /** Axes that weights are gathered over before they multiply; the batch is split over them. */
  readonly gathered: readonly AxisName[];
  /** Axes over which a matrix is split along the model's width: partial sums are added along them. */
  readonly width: readonly AxisName[];
  /** Axes over which it is split along its heads and feed-forward columns. */
  readonly columns: readonly AxisName[];
}

/** The layouts of Pope et al. (sections 3.2 and 3.3) by their names. */
export const LAYOUTS = {
  'ws-1d': { words: '1D weight-stationary', gathered: [], width: [], columns: ['x', 'y', 'z'] },
  'ws-2d': { words: '2D weight-stationary', gathered: [], width: ['x'], columns: ['y', 'z'] },
  'wg-x': { words: 'X-weight-gathered', gathered: ['x'], width: [], columns: ['y', 'z'] },
  'wg-xy': { words: 'XY-weight-gathered', gathered: ['x', 'y'], width: [], columns: ['z'] },
  'wg-xyz': { words: 'XYZ-weight-gathered', gathered: ['x', 'y', 'z'], width: [], columns: [] },
} as const satisfies Readonly<Record<string, Layout>>;
/** Weight-stationary in one or two dimensions; weight-gathered over one, two or three axes. */
export type LayoutName = keyof typeof LAYOUTS;
export const LAYOUT_NAMES = Object.keys(LAYOUTS) as LayoutName[];

/** Dimensions that the KV cache, and attention over it, is split over. */
export const ATTENTION_SHARDINGS = ['heads', 'batch'] as const;
/** Over heads (those with keys and values of their own), or over the rows of the batch. */
export type AttentionSharding = (typeof ATTENTION_SHARDINGS)[number];

/** How weights are kept; products are in bfloat16 in any case. */
export const WEIGHT_FORMATS = { bfloat16: 2, int8: 1 } as const;
/** Format of 2 bytes, or 1. */
export type WeightFormat = keyof typeof WEIGHT_FORMATS;
/** Bytes of an activation, a key or a value. */
export const ACTIVATION_BYTES = 2;

/** How a model is split over chips in one phase. */
export interface Partitioning {
  readonly mesh: Mesh;
  readonly layout: LayoutName;
  readonly attention: AttentionSharding;
  readonly weights: WeightFormat;
}
