import { isEncoder, type DecoderSpec, type LayerSpec } from '../../model/DecoderSpec.js';
import { ALL_POSITIONS, lastChunk, lastPositions, sinksAndLast, type CacheLaw } from '../grid/CacheLaw.js';

/**
 * A model's layers in groups that keep the same positions of a row: page i of a row is page i of all layers of a group.
 * Pages of all groups come from one pool and are as wide as the widest group has layers.
 */
export interface CacheGroups {
  /** Law of each group. */
  readonly laws: readonly CacheLaw[];
  /** The group of each layer. */
  readonly groupOf: readonly number[];
  /** Layers of the widest group. */
  readonly width: number;
}

/**
 * Pages of one width are what groups can exchange; a group of fewer layers leaves some of its pages' room empty, in all
 * this share of the layers at most.
 */
const MOST_EMPTY = 1 / 24;

/** In place of a window: the layer keeps no positions at all, or reads another's. */
export const KEEPS_NONE = -1;

/** The window of a layer, as `cacheGroups` has it: less than 0 where it is a chunk's. */
export function windowOf({ window, chunked = false, mixer = 'attention' }: LayerSpec): number {
  if (mixer !== 'attention') return KEEPS_NONE;
  return chunked && window > 1 ? -window : window;
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
 * @param whole the law of layers without a window. Default: they keep all positions
 * @param sizes of a page of each layer, in any unit. Default: all are alike
 */
export function cacheGroups(
  windows: readonly number[],
  positions: number,
  whole: CacheLaw = ALL_POSITIONS,
  sizes: readonly number[] = windows.map(() => 1),
): CacheGroups {
  const kinds = new Map<string, Kind>();
  windows.forEach((window, layer) => {
    if (window === KEEPS_NONE) return;
    // Layers without a window may have a law that lets go of what a window as long as the row still sees.
    const kept = Math.abs(window) < positions || whole !== ALL_POSITIONS ? window : 0;
    const size = sizes[layer] ?? 1;
    const kind = kinds.get(`${kept} ${size}`) ?? { window: kept, size, layers: [] };
    kinds.set(`${kept} ${size}`, { ...kind, layers: [...kind.layers, layer] });
  });
  const all = [...kinds.values()];
  if (all.length === 0) return oneGroup(windows.length, windows.length);
  const kept = all.reduce((sum, { size, layers }) => sum + size * layers.length, 0);
  const room = (width: number): number =>
    all.reduce((sum, { size, layers }) => sum + Math.ceil(layers.length / Math.floor(width / size)) * width, 0);
  const largest = Math.max(...all.map(({ size }) => size));
  const widths = [...new Set(all.flatMap(({ size, layers }) => layers.map((_, index) => size * (index + 1))))]
    .filter((width) => width >= largest)
    .sort((a, b) => b - a);
  const widest = widths.find((width) => room(width) <= kept * (1 + MOST_EMPTY)) ?? largest;
  const laws: CacheLaw[] = [];
  const groupOf = new Array<number>(windows.length).fill(0);
  let width = 1;
  for (const { window, size, layers } of all.sort((a, b) => Math.abs(a.window) - Math.abs(b.window))) {
    const each = Math.floor(widest / size);
    width = Math.max(width, Math.min(each, layers.length));
    layers.forEach((layer, index) => {
      if (index % each === 0) laws.push(window === 0 ? whole : lawOf(window));
      groupOf[layer] = laws.length - 1;
    });
  }
  return { laws, groupOf, width };
}

/** Layers with one window, and pages of one size. */
interface Kind {
  readonly window: number;
  readonly size: number;
  readonly layers: readonly number[];
}

function lawOf(window: number): CacheLaw {
  if (window === 0) return ALL_POSITIONS;
  return window < 0 ? lastChunk(-window) : lastPositions(window);
}

/**
 * The groups of a model's layers. Pure.
 * @param longest positions of the longest row that is to come
 */
export function groupsOf(decoder: DecoderSpec, gpu: boolean, longest: number): CacheGroups {
  const { layers, part, share, layerSpecs, contextTokens } = decoder;
  const { eviction } = decoder.attention;
  // A layer that reads another's keys and values keeps none.
  const windows = layerSpecs.map((layer) => (layer.keysOf === undefined ? windowOf(layer) : KEEPS_NONE));
  // Engines that hold the same rows, and a GPU beside its host, name pages to each other: those of all layers. An
  // encoder's layers have the same ones in turn.
  return gpu || part || share || isEncoder(decoder)
    ? oneGroup(layers, windows.filter((window) => window === KEEPS_NONE).length)
    : cacheGroups(
        windows,
        Math.min(longest, contextTokens),
        eviction && sinksAndLast(eviction),
        layerSpecs.map(({ headDim = decoder.headDim, kvHeads = decoder.kvHeads }) => headDim * kvHeads),
      );
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
