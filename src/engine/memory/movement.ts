import type { Exchange } from '../grid/rowExchange.js';
import { batchTokens, mayBeSampled, type RowId, type Square } from '../grid/Square.js';
import { type Hop, type QueueName, type Task, hopsOf, type MoveName } from '../grid/Task.js';
import type { Tier } from '../grid/Tier.js';
import type { PlacementShares, TierShares } from '../../plan/Placement.js';
import type { PageTable } from '../grid/PageTable.js';
import type { RequiredMoves } from '../schedules/PathRecord.js';

export type { TierShares };
/** Where weights, KV cache and activations live (the nine percentages of FlexGen's policy). */
export type Placement = PlacementShares;

export const ALL_ON_CPU: Placement = {
  weights: { gpu: 0, cpu: 1, disk: 0 },
  cache: { gpu: 0, cpu: 1, disk: 0 },
  activations: { gpu: 0, cpu: 1, disk: 0 },
};

/** Bytes of what moves. */
export interface ModelBytes {
  /** Weights of each layer. */
  readonly layerWeights: readonly number[];
  /** Keys and values of one token in one layer. */
  readonly tokenCache: number;
  /** Hidden state of one token. */
  readonly tokenActivations: number;
  /**
   * Tokens of a page of the cache, where whole pages come to where computing happens, and go back: those that rows
   * share once for all of a square's. Default: each token by itself, and what rows share is there.
   */
  readonly pageTokens?: number | undefined;
  /** The share of its context that a row which decodes loads: sparse attention takes few values. Default: all. */
  readonly decodingShare?: number | undefined;
}

/** The move of one task. */
export type Move = Hop & Pick<Task, 'hops'>;

const ORDER: readonly Tier[] = ['disk', 'cpu', 'gpu'];
const LINKS: Readonly<Record<string, QueueName>> = {
  'disk>cpu': 'disk-read',
  'cpu>gpu': 'host-to-device',
  'gpu>cpu': 'device-to-host',
  'cpu>disk': 'disk-write',
};

/**
 * The hops that bring `bytes` spread over the tiers to the compute tier, nearest tier first; hops of one list item
 * follow each other.
 */
function hops(shares: TierShares, bytes: number, compute: Tier, direction: 'load' | 'store'): Move[][] {
  const routes: Move[][] = [];
  for (const tier of ORDER) {
    const share = Math.round(bytes * shares[tier]);
    if (tier === compute || share === 0) continue;
    const [from, to] = direction === 'load' ? [tier, compute] : [compute, tier];
    const step = ORDER.indexOf(to) > ORDER.indexOf(from) ? 1 : -1;
    const route: Move[] = [];
    for (let i = ORDER.indexOf(from); i !== ORDER.indexOf(to); i += step) {
      const [a, b] = [ORDER[i], ORDER[i + step]];
      const queue = LINKS[`${a}>${b}`];
      if (a !== undefined && b !== undefined && queue !== undefined)
        route.push({ queue, from: a, to: b, bytes: share });
    }
    routes.push(route);
  }
  return routes;
}

/** Where the pages of rows are. */
export type PageLookup = (row: RowId) => PageTable | undefined;

/**
 * The moves that the stages have to make for a square under a placement. Each route's moves follow one another; routes
 * are independent.
 */
export interface Movement {
  loadWeight(square: Square): Move[][];
  loadCache(square: Square, pagesOf: PageLookup): Move[][];
  storeCache(square: Square, pagesOf: PageLookup): Move[][];
  loadActivation(square: Square): Move[][];
  storeActivation(square: Square): Move[][];
  /**
   * Gives the part of a square that goes to the engines that share its layer, where there are some. Default: nothing.
   */
  broadcast?(square: Square): Move | undefined;
  /** For each sum of all engines' shares. */
  allReduce?(square: Square): Move;
  /** Before attention, and after it, where engines attend to some rows each. Default: nothing. */
  allToAll?(square: Square, exchange: Exchange, pagesOf: PageLookup): Move | undefined;
}

/**
 * The same movements where attention goes to what of the cache is not on the GPU: the processor attends to it, and it
 * comes no nearer. Pure.
 */
export function withCpuAttention(moves: Movement): Movement {
  const nearer = (route: Move[]): Move[] => route.filter(({ to }) => to === 'cpu');
  return {
    ...moves,
    loadCache: (square, pagesOf) =>
      moves
        .loadCache(square, pagesOf)
        .map(nearer)
        .filter((route) => route.length > 0),
  };
}

/**
 * Movements under a placement. Pure. The bytes are those of FlexGen's cost model: whole contexts are loaded, but for
 * what rows share, which is there; new tokens are stored.
 */
export function movement(placement: Placement, bytes: ModelBytes, compute: Tier, layers: number): Movement {
  const { pageTokens, decodingShare = 1 } = bytes;
  const unit = pageTokens ?? 1;
  const context = ({ batch: { rows } }: Square): number =>
    rows.reduce(
      (sum, range) => {
        const { firstPosition, sharedTokens = 0 } = range;
        const tokens = Math.ceil(firstPosition / unit) * unit - Math.floor(sharedTokens / unit) * unit;
        return sum + tokens * (mayBeSampled(range) ? decodingShare : 1);
      },
      pageTokens === undefined
        ? 0
        : Math.max(...rows.map(({ sharedTokens = 0 }) => Math.floor(sharedTokens / unit) * unit)),
    );
  const fresh = ({ batch: { rows } }: Square): number =>
    rows.reduce(
      (sum, { firstPosition, tokens }) =>
        sum + (Math.ceil((firstPosition + tokens) / unit) - Math.floor(firstPosition / unit)) * unit,
      0,
    );
  return {
    loadWeight: ({ layer }) => hops(placement.weights, bytes.layerWeights[layer] ?? 0, compute, 'load'),
    loadCache: (square) => hops(placement.cache, bytes.tokenCache * context(square), compute, 'load'),
    // A page goes on to the disk when it is complete: of every token once.
    storeCache: (square) =>
      hops(placement.cache, bytes.tokenCache * fresh(square), compute, 'store').map((route) =>
        route.map((move) =>
          move.to === 'disk'
            ? { ...move, bytes: Math.round((move.bytes * batchTokens(square.batch)) / fresh(square)) }
            : move,
        ),
      ),
    // The first layer's inputs are embedded where computing happens, the last layer's outputs are sampled there.
    loadActivation: (square) =>
      square.layer === 0
        ? []
        : hops(placement.activations, bytes.tokenActivations * batchTokens(square.batch), compute, 'load'),
    storeActivation: (square) =>
      square.layer === layers - 1
        ? []
        : hops(placement.activations, bytes.tokenActivations * batchTokens(square.batch), compute, 'store'),
  };
}

/**
 * The movements of a GPU, where the processor attends to a share of what of the cache is not there: a row's last pages,
 * so that new tokens stand in them and those that come are complete. Pure.
 * @param bytes with `pageTokens`
 * @param hostShare from 0 to 1
 */
export function movementOnGpu(placement: Placement, bytes: ModelBytes, layers: number, hostShare: number): Movement {
  const of = (share: number, pageTokens: number | undefined): Movement =>
    movement({ ...placement, cache: elsewhere(placement.cache, share) }, { ...bytes, pageTokens }, 'gpu', layers);
  if (hostShare === 0) return of(1, bytes.pageTokens);
  const stays = (share: number): Movement => withCpuAttention(of(share, undefined));
  if (hostShare === 1) return stays(1);
  // Token by token, but what rows share once for all of a square's.
  const [coming, staying] = [of(1 - hostShare, 1), stays(hostShare)];
  return {
    ...stays(1),
    loadCache: (square, pagesOf) => [...coming.loadCache(square, pagesOf), ...staying.loadCache(square, pagesOf)],
  };
}

/** So much of what is not on the GPU. */
function elsewhere({ gpu, cpu, disk }: TierShares, share: number): TierShares {
  return { gpu, cpu: cpu * share, disk: disk * share };
}

/**
 * Lists the moves that a placement's movements demand of a path, in the words of `validatePath`. What one task moves
 * over several links counts on each.
 */
export function requiredMoves(movement: Movement, pagesOf: PageLookup = () => undefined): RequiredMoves {
  return (name, square) =>
    routesOf(movement, name, square, pagesOf).flatMap((route) =>
      route.some(({ hops }) => hops) ? route.flatMap((move) => hopsOf(move).map((hop) => [hop])) : [route],
    );
}

function routesOf(movement: Movement, name: MoveName, square: Square, pagesOf: PageLookup): Move[][] {
  switch (name) {
    case 'load_weight':
      return movement.loadWeight(square);
    case 'load_cache':
      return movement.loadCache(square, pagesOf);
    case 'load_activation':
      return movement.loadActivation(square);
    case 'store_activation':
      return movement.storeActivation(square);
    case 'store_cache':
      return movement.storeCache(square, pagesOf);
    // Between parts of compute: no input of it, and nothing that it leaves.
    case 'broadcast':
    case 'all_reduce':
    case 'all_to_all':
    case 'all_to_all_back':
      return [];
  }
}
