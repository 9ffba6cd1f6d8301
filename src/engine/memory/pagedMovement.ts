import type { PageTable } from '../grid/PageTable.js';
import { batchTokens, mayBeSampled, type Batch, type RowRange, type Square } from '../grid/Square.js';
import type { Hop } from '../grid/Task.js';
import { shareOfExpertsRead } from '../../plan/model/chosenExperts.js';
import { inDiskBlocks } from '../../plan/reserves.js';
import { KEEPS_NONE } from './cacheGroups.js';
import { fetchedPages, type FetchRules } from './fetchedPages.js';
import type { Move, Movement, PageLookup } from './movement.js';
import { stagedPages, type StagedPages } from './PagePlacement.js';

/** The bytes of a model that live on disk, in the units that really move. */
export interface PagedBytes {
  /** Weights that are read for each layer, every pass. */
  readonly streamedBytes: readonly number[];
  readonly pageTokens: number;
  /** Pages that the cache has on disk; with 0 nobody looks for any. */
  readonly diskPages: number;
  /** Bytes of one page of one layer on disk. */
  readonly pageSlotBytes: number;
  /**
   * The experts of a mixture, where these are read once few tokens have chosen them: their numbers, the batches of a
   * pass, and the bytes of experts among `streamedBytes`. Default: layers are read whole.
   */
  readonly chosen?:
    | {
        readonly experts: { readonly count: number; readonly perToken: number };
        readonly slots: number;
        readonly expertBytes: readonly number[];
      }
    | undefined;
  /** Attention window of each layer, in tokens; 0 = all positions, and `KEEPS_NONE` of one that keeps none. */
  readonly windows: readonly number[];
  /**
   * Where sparse attention takes values of chosen keys alone from disk: bytes of a page's keys, and what is read of its
   * values, as a share, for so many tokens that choose. Default: whole pages are read.
   */
  readonly choosing?: { readonly pageKeyBytes: number; readonly shareOfValues: (tokens: number) => number } | undefined;
  /** Hidden state of one token. */
  readonly tokenBytes: number;
  /**
   * Tokens of the largest square whose hidden states stay in memory, and how many it has; of a smaller one it is the
   * same share. Infinity where all do.
   */
  readonly residentTokens: number;
  readonly tokensPerSquare: number;
  /** Slots, the first ones, whose hidden states stay on a GPU. Default: none, unless all do. */
  readonly stayingSlots?: number | undefined;
  /**
   * Where computing happens on a GPU: bytes of each layer's weights that come from disk; all that is loaded crosses the
   * link.
   */
  readonly gpu?: { readonly fromDisk: readonly number[] } | undefined;
  /**
   * Where pages in memory and on disk come to a GPU, which attends to them: how they are told from those there, what a
   * buffer holds, and the bytes of one page of one layer. Default: they stay.
   */
  readonly fetch?: (Omit<FetchRules, 'pageTokens'> & { readonly pageBytes: number }) | undefined;
}

/**
 * Movements with pages and blocks as they are: what native tasks really read and write. On a GPU what comes from disk
 * goes through the host's memory in pieces, in the task that takes it over the link. Pages of the cache stay where they
 * are, but for those on disk: attention goes to the tier where a page is, unless they all come to the GPU. Pure.
 */
export function pagedMovement({
  streamedBytes,
  pageTokens,
  diskPages,
  pageSlotBytes,
  windows,
  tokenBytes,
  residentTokens,
  tokensPerSquare,
  stayingSlots = 0,
  gpu,
  fetch,
  chosen,
  choosing,
}: PagedBytes): Movement {
  const read = ({ layer, batch }: Square): number => {
    const whole = streamedBytes[layer] ?? 0;
    if (!chosen) return whole;
    const left = 1 - shareOfExpertsRead(chosen.experts, chosen.slots * batchTokens(batch));
    return whole - Math.floor(left * (chosen.expertBytes[layer] ?? 0));
  };
  const layers = streamedBytes.length;
  const cacheStays = diskPages === 0 && !fetch;
  const loadedBytes = (range: RowRange): number => {
    if (!choosing || !mayBeSampled(range)) return pageSlotBytes;
    const { pageKeyBytes, shareOfValues } = choosing;
    return pageKeyBytes + shareOfValues(range.tokens) * (pageSlotBytes - pageKeyBytes);
  };
  const staged = ({ batch: { rows }, layer }: Square, pagesOf: PageLookup, which: 'loads' | 'stores'): number => {
    if (diskPages === 0 || windows[layer] === KEEPS_NONE) return 0;
    const bytes = rows.reduce((sum, range) => {
      const pages = pagesOf(range.row);
      if (!pages) return sum;
      const count = stagedPages(range, pages, pageTokens, windows[layer] ?? 0)[which];
      return sum + count * (which === 'loads' ? loadedBytes(range) : pageSlotBytes);
    }, 0);
    return Math.round(bytes);
  };
  const fetched = new WeakMap<Batch, Map<number, StagedPages>>();
  /** Counts the link's bytes: the same in all layers with one window. */
  const linkBytes = ({ batch, layer }: Square, pagesOf: PageLookup, which: 'loads' | 'stores'): number => {
    if (!fetch) return 0;
    const window = windows[layer] ?? 0;
    const known = fetched.get(batch) ?? new Map<number, StagedPages>();
    fetched.set(batch, known);
    let pages = known.get(window);
    if (!pages) known.set(window, (pages = fetchedPages(withTables(batch, pagesOf), { pageTokens, ...fetch }, window)));
    return pages[which] * fetch.pageBytes;
  };
  /** Routes what of the cache comes from disk or goes there; it may stay in memory, for the processor to attend to. */
  const overLink = (
    square: Square,
    pagesOf: PageLookup,
    which: 'loads' | 'stores',
    link: Omit<Hop, 'bytes'>,
    disk: Hop,
  ): Move[][] => {
    const bytes = linkBytes(square, pagesOf, which);
    return bytes > 0 ? route({ ...link, bytes }, disk) : route(disk);
  };
  const hidden = ({ batch }: Square): number =>
    inDiskBlocks(
      Math.ceil((batchTokens(batch) * tokenBytes * Math.max(0, tokensPerSquare - residentTokens)) / tokensPerSquare),
    );
  const all = ({ batch }: Square): number => batchTokens(batch) * tokenBytes;
  const stays = ({ batch: { slot } }: Square): boolean => residentTokens === Infinity || slot < stayingSlots;
  return {
    loadWeight: (square) => {
      const bytes = streamedBytes[square.layer] ?? 0;
      if (bytes === 0) return [];
      return gpu
        ? route({ ...UP, bytes }, { ...READ, bytes: gpu.fromDisk[square.layer] ?? 0 })
        : route({ ...READ, bytes: read(square) });
    },
    loadCache: (square, pagesOf) => {
      if (cacheStays) return [];
      const read = { ...READ, bytes: staged(square, pagesOf, 'loads') };
      return overLink(square, pagesOf, 'loads', UP, read);
    },
    storeCache: (square, pagesOf) => {
      if (cacheStays) return [];
      const write = { ...WRITE, bytes: staged(square, pagesOf, 'stores') };
      return overLink(square, pagesOf, 'stores', DOWN, write);
    },
    // The first layer's inputs are embedded where computing happens, the last layer's outputs are sampled there.
    // Between layers hidden states that share working buffers move even when all of them stay in memory: they are
    // copied.
    loadActivation: (square) => {
      if (square.layer === 0 || stays(square)) return [];
      const read = { ...READ, bytes: hidden(square) };
      return gpu ? route({ ...UP, bytes: all(square) }, read) : [[read]];
    },
    storeActivation: (square) => {
      if (square.layer === layers - 1 || stays(square)) return [];
      const write = { ...WRITE, bytes: hidden(square) };
      return gpu ? route({ ...DOWN, bytes: all(square) }, write) : [[write]];
    },
  };
}

function* withTables({ rows }: Batch, pagesOf: PageLookup): Generator<readonly [RowRange, PageTable]> {
  for (const range of rows) {
    const pages = pagesOf(range.row);
    if (pages) yield [range, pages];
  }
}

/** The one move of what there is, with a hop over another link where that has anything to move. */
function route(move: Hop, hop?: Hop): Move[][] {
  if (move.bytes === 0) return [];
  return [[hop && hop.bytes > 0 ? { ...move, hops: [hop] } : move]];
}

const READ = { queue: 'disk-read', from: 'disk', to: 'cpu' } as const;
const WRITE = { queue: 'disk-write', from: 'cpu', to: 'disk' } as const;
const UP = { queue: 'host-to-device', from: 'cpu', to: 'gpu' } as const;
const DOWN = { queue: 'device-to-host', from: 'gpu', to: 'cpu' } as const;
