import { lastValueFrom, tap, toArray, type Observable } from 'rxjs';
import type { Device } from '../../src/engine/grid/Device.js';
import type { StageContext } from '../../src/engine/execution/Run.js';
import type { SimulatedDevice } from '../../src/engine/execution/SimulatedDevice.js';
import type { MoveName, TaskEvent } from '../../src/engine/grid/Task.js';
import type { Tier } from '../../src/engine/grid/Tier.js';
import { type PageLookup, type Placement, requiredMoves } from '../../src/engine/memory/movement.js';
import type { PageTier } from '../../src/engine/grid/pageCounts.js';
import type { PageTable } from '../../src/engine/grid/PageTable.js';
import type { PathRules, TierUsage, RequiredMoves } from '../../src/engine/schedules/PathRecord.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import type { RowId, Square } from '../../src/engine/grid/Square.js';
import { validatePath } from '../../src/engine/schedules/validatePath.js';
import { finishedRows } from '../../src/operators/finishedRows.js';
import { squares } from '../../src/operators/squares.js';
import type { Stage } from '../../src/operators/stageInternals.js';
import { overriding } from './overriding.js';
import type { Aheads } from './randomPipeline.js';
import {
  SIMULATED_BYTES,
  simulatedMoves,
  simulatedRun,
  tieredPool,
  type SimulatedResult,
  type SimulatedRow,
  type SimulatedRun,
  type SimulatedSetup,
} from './simulatedRun.js';

const TIERS: readonly Tier[] = ['gpu', 'cpu', 'disk'];
/** Where a tier's pages are counted. */
const PAGES_OF: Readonly<Record<Tier, PageTier>> = { gpu: 'gpu', cpu: 'memory', disk: 'disk' };
/** Turns of the event loop after which a run that has not come to an end will not. */
const PATIENCE = 50_000;

export interface JudgedSetup extends SimulatedSetup {
  readonly rows: readonly SimulatedRow[];
  readonly schedule: Schedule;
  readonly placement: Placement;
  readonly pages: number;
  readonly pageTokens: number;
  readonly window: number;
  readonly aheads: Aheads;
  readonly pipeline: (run: StageContext) => Stage;
  /** Before each row, turns of the event loop that pass until it comes. */
  readonly pauses?: readonly number[];
}

/** A run with all that judging it takes. */
export interface JudgedRun extends SimulatedRun {
  readonly results$: Observable<SimulatedResult>;
  readonly usage: readonly TierUsage[];
  readonly lives: ReadonlyMap<RowId, { readonly from: number; readonly until: number }>;
  /** The page tables of all rows, also of those that have ended. */
  readonly pagesOf: PageLookup;
  /** The most squares that were under way at once. */
  readonly mostUnderWay: () => number;
}

export function judgedRun(given: JudgedSetup): JudgedRun {
  const usage: TierUsage[] = [];
  const lives = new Map<RowId, { from: number; until: number }>();
  const tables = new Map<RowId, PageTable>();
  const capacities = TIERS.map((tier) => [tier, capacity(given, tier)] as const);
  const simulated = simulatedRun({
    ...given,
    rows: given.pauses === undefined ? given.rows : late(given.rows, given.pauses),
    wrapDevice: (device) => lifeLog(given.wrapDevice?.(device) ?? device, device, lives, tables),
    memory: (pool) =>
      Object.fromEntries(
        capacities.map(([tier, capacityBytes]) => [
          tier,
          {
            capacityBytes,
            usedBytes: inUse(given, tier, pool.used[PAGES_OF[tier]]),
            peakBytes: 0,
          },
        ]),
      ),
    onTrace: ({ name, ph, ts, args }) => {
      if (ph === 'C') usage.push({ at: ts / 1e6, tier: name.replace(' bytes', ''), usedBytes: Number(args['used']) });
    },
  });
  const { run } = simulated;
  let under = 0;
  let most = 0;
  const results$ = squares(run).pipe(
    tap(() => (most = Math.max(most, ++under))),
    given.pipeline(run),
    tap(() => under--),
    finishedRows(run),
  );
  return { ...simulated, results$, usage, lives, pagesOf: (row) => tables.get(row), mostUnderWay: () => most };
}

/** Runs to the end, and judges everything. @throws whatever is not as it has to be */
export async function runAndJudge(given: JudgedSetup): Promise<JudgedRun> {
  const judged = judgedRun(given);
  const results = await inTime(lastValueFrom(judged.results$.pipe(toArray())));
  await inTime(judged.run.drained);
  judgeResults(given.rows, results);
  if (results.length !== given.rows.length)
    throw new Error(`${results.length} of ${given.rows.length} rows have come to an end`);
  judgePath(given, judged);
  judged.nothingLeft();
  if (judged.mostUnderWay() > given.window)
    throw new Error(`${judged.mostUnderWay()} squares were under way in a window of ${given.window}`);
  return judged;
}

/** Every row that has a result has all of its tokens, and none has two. */
export function judgeResults(rows: readonly SimulatedRow[], results: readonly SimulatedResult[]): void {
  const seen = new Set<number>();
  for (const { index, tokens } of results) {
    if (seen.has(index)) throw new Error(`row ${index} has come to an end twice`);
    seen.add(index);
    const { promptTokens = 0, newTokens = 0, endsAfter = Infinity } = rows[index] ?? {};
    const expected = Array.from({ length: Math.min(newTokens, endsAfter) }, (_, i) => (promptTokens + i) % 1000);
    if (expected.join() !== tokens.join())
      throw new Error(`row ${index} has tokens ${tokens.join()}, expected ${expected.join()}`);
  }
}

/** @throws ScheduleError with the constraint that the trace breaks */
export function judgePath(given: JudgedSetup, { events, usage, lives, pagesOf, device }: JudgedRun): void {
  const { capacity: firstGpuPage } = given.pool ?? tieredPool(given.placement, given.pages, given.pageTokens);
  const moves = requiredMoves(
    simulatedMoves(given.moves ?? 'shares', { ...given, firstGpuPage }, device.computeTier),
    pagesOf,
  );
  const early = new Set(
    given.rows.flatMap(({ newTokens, endsAfter = Infinity }, row) => (endsAfter < newTokens ? [row] : [])),
  );
  validatePath(
    given.grid,
    given.rows.map((row, index) => ({ row: index, ...row })),
    events,
    early,
    {
      moves,
      lives,
      usage,
      capacityBytes: Object.fromEntries(TIERS.map((tier) => [tier, capacity(given, tier)])),
      // How far stages run ahead is measured in squares that are computed in order, which only a queue that keeps its
      // order sees to.
      ...(given.simulation?.unordered === true ? {} : { stagingBytes: stagingBytes(given, events, moves) }),
    },
  );
}

/** What look-ahead, the slots and the window allow to be on its way at once. */
export function stagingBytes(
  { grid, aheads, window }: Pick<JudgedSetup, 'grid' | 'aheads' | 'window'>,
  events: readonly TaskEvent[],
  moves: RequiredMoves,
): NonNullable<PathRules['stagingBytes']> {
  // In order of issue.
  const issued = [
    ...new Map(
      events
        .filter(({ task }) => task.name === 'compute')
        .sort((a, b) => b.id - a.id)
        .map((event) => [`${event.task.batch.pass} ${event.task.layer} ${event.task.batch.slot}`, event]),
    ).values(),
  ]
    .sort((a, b) => a.id - b.id)
    .map(({ task }) => task);
  const layers = issued.filter(
    ({ batch: { pass }, layer }, index) =>
      issued.findIndex((first) => first.batch.pass === pass && first.layer === layer) === index,
  );
  const room = {
    weights: { gpu: 0, cpu: 0, disk: 0 },
    cache: { gpu: 0, cpu: 0, disk: 0 },
    activations: { gpu: 0, cpu: 0, disk: 0 },
  };
  /**
   * What a square's routes bring to a tier; of stores what passes through it, unless it stays there until it is loaded
   * again.
   */
  const brought = (name: MoveName, square: Square, tier: Tier): number =>
    moves(name, square)
      .flatMap((route, _, all) =>
        name === 'store_cache'
          ? route.filter(({ to }, at) => at < route.length - 1 || all.some(([first]) => first?.from === to))
          : route,
      )
      .reduce((sum, { to, bytes }) => sum + (to === tier ? bytes : 0), 0);
  /** The most that some squares in a row bring along. */
  const addLoads = (kind: keyof Placement, name: MoveName, squares: readonly Square[], inRow: number): void => {
    for (const tier of TIERS) {
      const sizes = squares.map((square) => brought(name, square, tier));
      room[kind][tier] += Math.max(
        0,
        ...sizes.map((_, end) =>
          sizes.slice(Math.max(0, end + 1 - inRow), end + 1).reduce((sum, each) => sum + each, 0),
        ),
      );
    }
  };
  const addStores = (kind: keyof Placement, name: MoveName, count: number): void => {
    for (const tier of TIERS)
      room[kind][tier] += count * Math.max(0, ...issued.map((square) => brought(name, square, tier)));
  };
  addLoads('weights', 'load_weight', layers, aheads.weights + 1);
  addLoads('cache', 'load_cache', issued, aheads.cache + 1);
  addLoads('activations', 'load_activation', issued, aheads.activations + 1);
  addStores('cache', 'store_cache', window);
  addStores('activations', 'store_activation', grid.slots);
  return room;
}

/** Fails when something does not happen although the event loop has come round very often: a deadlock. */
export async function inTime<T>(promise: Promise<T>): Promise<T> {
  let waiting = true;
  const clock = (async (): Promise<never> => {
    for (let turn = 0; waiting && turn < PATIENCE; turn++) await new Promise((resolve) => setImmediate(resolve));
    throw new Error('nothing happens any more: a deadlock');
  })();
  try {
    return await Promise.race([promise, clock]);
  } finally {
    waiting = false;
    clock.catch(() => undefined);
  }
}

function inUse(given: JudgedSetup, tier: Tier, pages: number): number {
  return Math.round(home(given, tier) + pages * pageBytes(given));
}

function capacity(given: JudgedSetup, tier: Tier): number {
  const { disk, gpu, capacity: memory } = tieredPool(given.placement, given.pages, given.pageTokens);
  return inUse(given, tier, { gpu: gpu.pages, cpu: memory, disk: disk.pages }[tier]);
}

function home({ grid, placement }: JudgedSetup, tier: Tier): number {
  return grid.layers * SIMULATED_BYTES.layerWeights * placement.weights[tier];
}

function pageBytes({ grid, pageTokens }: JudgedSetup): number {
  return grid.layers * pageTokens * SIMULATED_BYTES.tokenCache;
}

export function late(rows: readonly SimulatedRow[], pauses: readonly number[]): AsyncIterable<SimulatedRow> {
  const pause = async (turns: number): Promise<void> => {
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return (async function* () {
    for (const [index, row] of rows.entries()) {
      await pause(pauses[index % Math.max(1, pauses.length)] ?? 0);
      yield row;
    }
  })();
}

/** Notes, in virtual time, when rows get and lose their memory, and where their pages are. */
export function lifeLog(
  device: Device,
  clock: SimulatedDevice,
  lives: Map<RowId, { from: number; until: number }>,
  tables?: Map<RowId, PageTable>,
): Device {
  return overriding<Device>(device, {
    openRow: (...args) => {
      lives.set(args[1], { from: clock.announced, until: Infinity });
      tables?.set(args[1], args[3]);
      device.openRow(...args);
    },
    closeRow: (...args) => {
      const life = lives.get(args[1]);
      if (life) life.until = Math.min(life.until, clock.announced);
      device.closeRow(...args);
    },
  });
}
