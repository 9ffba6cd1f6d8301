import { isEncoder, type DecoderSpec, type LayerSpec } from '../../model/DecoderSpec.js';
import { ALL_POSITIONS, lastPositions, sinksAndLast, type CacheLaw } from '../grid/CacheLaw.js';

/**
 * A model's layers in groups that keep the same positions of a row: page i of a row is page i of all layers of a group.
 * Pages of all groups come from one pool and are as wide as the widest group has layers.
 */
export interface CacheGroups {
  /** Of each group. */
  readonly laws: readonly CacheLaw[];
  /** Of each layer, its group. */
  readonly groupOf: readonly number[];
  /** Layers of the widest group. */
  readonly width: number;
}

/**
 * Pages of one width are what groups can exchange; a group of fewer layers leaves some of its pages' room empty, in all
 * this share of the layers at most.
 */
const MOST_EMPTY = 1 / 24;

/** In place of a window: the layer keeps no positions at all. */
export const KEEPS_NONE = -1;

/** The window of a layer, as `cacheGroups` has it. */
export function windowOf({ window, mixer = 'attention' }: LayerSpec): number {
  return mixer === 'attention' ? window : KEEPS_NONE;
}

/** All layers keep all positions, but for those that keep none. Pure. */
export function oneGroup(layers: number, keepingNone = 0): CacheGroups {
  const width = Math.max(1, layers - keepingNone);
  return { laws: [ALL_POSITIONS], groupOf: new Array<number>(layers).fill(0), width };
}

/**
 * Divides layers by their windows: those of one window make groups of like width, so that a page that one group gives
 * back is one that another can take. Groups are as wide as they can be, since each has a page table of its own. Pure.
 *
 * @param windows of each layer; 0 = all positions. Layers that keep none are in no group, whatever `groupOf` says
 * @param positions of the longest row: a window of as many lets nothing go
 * @param all the law of layers without a window
 */
export function cacheGroups(windows: readonly number[], positions: number, all: CacheLaw = ALL_POSITIONS): CacheGroups {
  const kinds = new Map<number, number[]>();
  const kept = windows.filter((window) => window !== KEEPS_NONE).length;
  if (kept === 0) return oneGroup(windows.length, windows.length);
  windows.forEach((window, layer) => {
    if (window === KEEPS_NONE) return;
    const kind = window < positions ? window : 0;
    kinds.set(kind, [...(kinds.get(kind) ?? []), layer]);
  });
  const widthOf = (most: number): number =>
    [...kinds.values()].reduce((sum, layers) => sum + Math.ceil(layers.length / most) * most, 0);
  let width = Math.max(...[...kinds.values()].map((layers) => layers.length));
  while (widthOf(width) > kept * (1 + MOST_EMPTY)) width--;
  const laws: CacheLaw[] = [];
  const groupOf = new Array<number>(windows.length).fill(0);
  for (const [window, layers] of [...kinds].sort(([a], [b]) => a - b)) {
    layers.forEach((layer, index) => {
      if (index % width === 0) laws.push(window === 0 ? all : lastPositions(window));
      groupOf[layer] = laws.length - 1;
    });
  }
  return { laws, groupOf, width };
}

/**
 * The groups of a model's layers. Pure.
 * @param longest positions of the longest row that is to come
 */
export function groupsOf(decoder: DecoderSpec, gpu: boolean, longest: number): CacheGroups {
  const { layers, part, share, layerSpecs, contextTokens } = decoder;
  const { eviction } = decoder.attention;
  const windows = layerSpecs.map(windowOf);
  // Engines that hold the same rows, and a GPU beside its host, name pages to each other: those of all layers. An
  // encoder's layers have the same ones in turn.
  return gpu || part || share || isEncoder(decoder)
    ? oneGroup(layers, windows.filter((window) => window === KEEPS_NONE).length)
    : cacheGroups(windows, Math.min(longest, contextTokens), eviction && sinksAndLast(eviction));
}

/**
 * How many pages rows keep, as `CacheRules` have it. Of a prompt two squares are under way: the next one begins while
 * the one before is still in the last layers. Pure.
 */
export function groupRules(
  { laws: groups }: CacheGroups,
  { tokensPerSquare }: { readonly tokensPerSquare: number },
): { readonly groups: readonly CacheLaw[]; readonly promptTokensUnderWay: number } {
  return { groups, promptTokensUnderWay: 2 * tokensPerSquare };
}
