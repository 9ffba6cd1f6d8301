import type { Device } from '../../src/engine/grid/Device.js';
import { RowFeed } from '../../src/engine/execution/RowFeed.js';
import { GREEDY } from '../../src/engine/execution/greedy.js';
import { Run } from '../../src/engine/execution/Run.js';
import type { RunRow } from '../../src/engine/execution/RunRow.js';
import { RunRecorder, type RecorderSetup } from '../../src/engine/execution/RunRecorder.js';
import { SimulatedDevice, type SimulationOptions } from '../../src/engine/execution/SimulatedDevice.js';
import type { TaskEvent } from '../../src/engine/grid/Task.js';
import type { Tier } from '../../src/engine/grid/Tier.js';
import {
  ALL_ON_CPU,
  movement,
  withCpuAttention,
  type Movement,
  type Placement,
} from '../../src/engine/memory/movement.js';
import { pagedMovement } from '../../src/engine/memory/pagedMovement.js';
import { PagePool } from '../../src/engine/memory/PagePool.js';
import { placePages } from '../../src/engine/memory/placePages.js';
import { diagonalBlock } from '../../src/engine/schedules/blockSchedules.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import type { Grid } from '../../src/engine/grid/Square.js';
import { watchSharing } from './watchSharing.js';

/** A row of a simulated run: its lengths, and optionally after how many tokens it ends early. */
export interface SimulatedRow {
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly endsAfter?: number;
  /** Its prompt, where that matters: `promptTokens` of them. */
  readonly prompt?: readonly number[];
}

/**
 * How things move: by shares, the whole context of a row to where it is computed; so, but attention goes to what of the
 * cache is not on the GPU; or by pages, as in engines, those that are not on the GPU attended to by the processor or
 * fetched to it.
 */
export type SimulatedMoves = 'shares' | 'cpu-attention' | 'pages' | 'fetched-pages';

export interface SimulatedSetup {
  readonly grid: Grid;
  readonly moves?: SimulatedMoves;
  /** Default: so many pages, on the tiers where the cache lives. */
  readonly pool?: PagePool;
  readonly rows: Iterable<SimulatedRow> | AsyncIterable<SimulatedRow>;
  readonly schedule?: Schedule;
  readonly placement?: Placement;
  readonly pages?: number;
  readonly pageTokens?: number;
  readonly window?: number;
  readonly ahead?: number;
  readonly simulation?: SimulationOptions;
  readonly signal?: AbortSignal;
  readonly sharePrefixes?: boolean;
  readonly turnMilliseconds?: number;
  /** Stands between the run and the simulated device. */
  readonly wrapDevice?: (device: SimulatedDevice) => Device;
  /** Bytes in use, for the trace. */
  readonly memory?: (pool: PagePool) => ReturnType<RecorderSetup['memory']>;
  readonly onTrace?: RecorderSetup['onTrace'];
  readonly onProgress?: RecorderSetup['onProgress'];
  readonly onStats?: RecorderSetup['onStats'];
}

/** What the model of a simulated run weighs. */
export const SIMULATED_BYTES = { layerWeights: 1000, tokenCache: 10, tokenActivations: 100 };

/** The result of a simulated row: its number in the input, and the tokens that it got. */
export interface SimulatedResult {
  readonly index: number;
  readonly tokens: readonly number[];
}

/** A run on the simulated device, with everything in it that a test may want to look at. */
export interface SimulatedRun {
  readonly run: Run<SimulatedResult>;
  readonly device: SimulatedDevice;
  readonly pool: PagePool;
  readonly recorder: RunRecorder;
  /** Every event, in order of completion. */
  readonly events: readonly TaskEvent[];
  /** To be called when the run is over: throws where something is left of it. */
  readonly nothingLeft: () => void;
}

export function simulatedRun(setup: SimulatedSetup): SimulatedRun {
  const { grid, rows, pages = 1_000_000, pageTokens = 4 } = setup;
  const device = new SimulatedDevice(setup.simulation);
  const placement = setup.placement ?? ALL_ON_CPU;
  const pool = setup.pool ?? tieredPool(placement, pages, pageTokens);
  const nothingLeft = watchSharing(pool);
  const events: TaskEvent[] = [];
  device.completed$.subscribe((burst) => {
    for (const { event } of burst) events.push(event);
  });
  const recorder = new RunRecorder({
    model: 'simulated',
    policy: {},
    loadSeconds: 0,
    memory: () => setup.memory?.(pool) ?? {},
    onTrace: setup.onTrace,
    onProgress: setup.onProgress,
    onStats: setup.onStats,
  });
  const run = new Run<SimulatedResult>({
    id: 1,
    device: setup.wrapDevice?.(device) ?? device,
    grid,
    movement: simulatedMoves(
      setup.moves ?? 'shares',
      { grid, placement, pageTokens, firstGpuPage: pool.capacity },
      device.computeTier,
    ),
    schedule: setup.schedule ?? diagonalBlock(),
    pool,
    window: setup.window ?? 8,
    feed: new RowFeed(runRows(rows), setup.ahead ?? grid.slots * grid.rowsPerSlot),
    recorder,
    signal: setup.signal,
    turnMilliseconds: setup.turnMilliseconds,
    ...(setup.sharePrefixes !== undefined && { sharePrefixes: setup.sharePrefixes }),
  });
  return { run, device, pool, recorder, events, nothingLeft };
}

/** So many pages, on the tiers where the cache lives. */
export function tieredPool({ cache: { gpu, disk } }: Placement, pages: number, pageTokens: number): PagePool {
  const sizes = placePages(pages * pageTokens, {
    pageTokens,
    gpuShare: gpu,
    diskShare: disk,
    mostDiskPages: Infinity,
  }).pages;
  return new PagePool(
    sizes.memory,
    pageTokens,
    { pages: sizes.disk, share: disk, mostPerRow: Infinity },
    { pages: sizes.gpu, share: gpu },
  );
}

export function simulatedMoves(
  moves: SimulatedMoves,
  {
    grid,
    placement,
    pageTokens,
    firstGpuPage,
  }: {
    readonly grid: Grid;
    readonly placement: Placement;
    readonly pageTokens: number;
    /** Pages of the pool in memory. */
    readonly firstGpuPage: number;
  },
  compute: Tier,
): Movement {
  const byShares = simulatedMovement(placement, compute, grid.layers);
  if (moves === 'shares') return byShares;
  if (moves === 'cpu-attention') return withCpuAttention(byShares);
  const { weights, activations } = placement;
  const ofLayers = (share: number): number[] =>
    new Array<number>(grid.layers).fill(Math.round(SIMULATED_BYTES.layerWeights * share));
  const withGpu = compute === 'gpu';
  return pagedMovement({
    streamedBytes: ofLayers(withGpu ? weights.cpu + weights.disk : weights.disk),
    pageTokens,
    diskPages: 1,
    pageSlotBytes: pageTokens * SIMULATED_BYTES.tokenCache,
    windows: new Array<number>(grid.layers).fill(0),
    tokenBytes: SIMULATED_BYTES.tokenActivations,
    residentTokens:
      activations.disk > 0 || (withGpu && activations.cpu > 0)
        ? Math.round(grid.tokensPerSquare * (1 - activations.disk))
        : Infinity,
    tokensPerSquare: grid.tokensPerSquare,
    ...(withGpu && { gpu: { fromDisk: ofLayers(weights.disk) } }),
    ...(withGpu &&
      moves === 'fetched-pages' && { fetch: { firstGpuPage, pageBytes: pageTokens * SIMULATED_BYTES.tokenCache } }),
  });
}

export function simulatedMovement(placement: Placement, compute: Tier, layers: number): Movement {
  return movement(
    placement,
    { ...SIMULATED_BYTES, layerWeights: new Array<number>(layers).fill(SIMULATED_BYTES.layerWeights) },
    compute,
    layers,
  );
}

export async function* runRows(rows: SimulatedSetup['rows']): AsyncGenerator<RunRow<SimulatedResult>> {
  let index = 0;
  for await (const row of rows) yield runRow(row, index++);
}

function runRow(
  { promptTokens, newTokens, endsAfter = Infinity, prompt }: SimulatedRow,
  index: number,
): RunRow<SimulatedResult> {
  const tokens: number[] = [];
  let scored = 0;
  return {
    sequence: {
      tokens: prompt ?? new Array<number>(promptTokens).fill(1),
      capacityTokens: promptTokens + newTokens,
      ...GREEDY,
    },
    newTokens,
    accept: (head, row) => {
      if (newTokens === 0)
        return (scored += head.scored.get(row)?.length ?? 0) >= promptTokens - 1 ? { index, tokens } : undefined;
      const sampled = head.sampled.get(row);
      if (sampled) tokens.push(sampled.token, ...(sampled.forced ?? []));
      const most = Math.min(newTokens, endsAfter);
      return tokens.length >= most ? { index, tokens: tokens.slice(0, most) } : undefined;
    },
  };
}
