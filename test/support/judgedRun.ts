import { lastValueFrom, tap, toArray, type Observable } from 'rxjs';
import type { Device } from '../../src/engine/execution/Device.js';
import type { StageContext } from '../../src/engine/execution/Run.js';
import type { SimulatedDevice } from '../../src/engine/execution/SimulatedDevice.js';
import type { TaskEvent, Tier } from '../../src/engine/execution/Task.js';
import type { Placement } from '../../src/engine/memory/movement.js';
import { requiredMoves } from '../../src/engine/memory/requiredMoves.js';
import type { PathRules, TierUsage } from '../../src/engine/schedules/PathRules.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import { squareTokens, type RowId } from '../../src/engine/schedules/Square.js';
import { validatePath } from '../../src/engine/schedules/validatePath.js';
import { finishedRows } from '../../src/operators/finishedRows.js';
import { squares } from '../../src/operators/squares.js';
import type { Stage } from '../../src/operators/stageInternals.js';
import { overriding } from './overriding.js';
import type { Aheads } from './randomPipeline.js';
import { SIMULATED_BYTES, simulatedMovement, simulatedRun, type SimulatedResult, type SimulatedRow, type SimulatedRun, type SimulatedSetup } from './simulatedRun.js';

const TIERS: readonly Tier[] = ['gpu', 'cpu', 'disk'];
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
  /** The most squares that were under way at once. */
  readonly mostUnderWay: () => number;
}

export function judgedRun(given: JudgedSetup): JudgedRun {
  const usage: TierUsage[] = [];
  const lives = new Map<RowId, { from: number; until: number }>();
  const simulated = simulatedRun({
    ...given,
    rows: given.pauses === undefined ? given.rows : late(given.rows, given.pauses),
    wrapDevice: (device) => lifeLog(given.wrapDevice?.(device) ?? device, device, lives),
    memory: (pool) => Object.fromEntries(TIERS.map((tier) => [tier, { capacityBytes: capacity(given, tier), usedBytes: inUse(given, tier, pool.used.memory), peakBytes: 0 }])),
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
  return { ...simulated, results$, usage, lives, mostUnderWay: () => most };
}

/** Runs to the end, and judges everything. @throws whatever is not as it has to be */
export async function runAndJudge(given: JudgedSetup): Promise<JudgedRun> {
  const judged = judgedRun(given);
  const results = await inTime(lastValueFrom(judged.results$.pipe(toArray())));
  await inTime(judged.run.drained);
  judgeResults(given.rows, results);
  if (results.length !== given.rows.length) throw new Error(`${results.length} of ${given.rows.length} rows have come to an end`);
  judgePath(given, judged);
  if (judged.pool.used.memory !== 0) throw new Error(`${judged.pool.used.memory} pages were not given back`);
  if (judged.mostUnderWay() > given.window) throw new Error(`${judged.mostUnderWay()} squares were under way in a window of ${given.window}`);
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
    if (expected.join() !== tokens.join()) throw new Error(`row ${index} has tokens ${tokens.join()}, expected ${expected.join()}`);
  }
}

/** @throws ScheduleError with the constraint that the trace breaks */
export function judgePath(given: JudgedSetup, { events, usage, lives, device }: JudgedRun): void {
  const early = new Set(given.rows.flatMap(({ newTokens, endsAfter = Infinity }, row) => (endsAfter < newTokens ? [row] : [])));
  validatePath(given.grid, given.rows.map((row, index) => ({ row: index, ...row })), events, early, {
    moves: requiredMoves(simulatedMovement(given.placement, device.computeTier, given.grid.layers)),
    lives,
    usage,
    capacityBytes: Object.fromEntries(TIERS.map((tier) => [tier, capacity(given, tier)])),
    // How far stages run ahead is measured in squares that are computed in order, which only a queue that keeps its order sees to.
    ...(given.simulation?.unordered === true ? {} : { stagingBytes: stagingBytes(given, events, device.computeTier) }),
  });
}

/** What look-ahead, the slots and the window allow to be on its way at once. */
export function stagingBytes({ grid, placement, aheads, window }: Pick<JudgedSetup, 'grid' | 'placement' | 'aheads' | 'window'>, events: readonly TaskEvent[], compute: Tier): NonNullable<PathRules['stagingBytes']> {
  // In order of issue.
  const issued = [...new Map(events.filter(({ task }) => task.name === 'compute').sort((a, b) => b.id - a.id).map((event) => [`${event.task.pass} ${event.task.layer} ${event.task.slot}`, event])).values()]
    .sort((a, b) => a.id - b.id)
    .map(({ task }) => task);
  const contexts = issued.map(({ rows }) => rows.reduce((sum, range) => sum + range.firstPosition, 0));
  const loadedTokens = issued.map((task) => (task.layer === 0 ? 0 : squareTokens(task)));
  const tokens = Math.max(0, ...issued.map(squareTokens));
  const { layerWeights, tokenCache, tokenActivations } = SIMULATED_BYTES;
  const none = { gpu: 0, cpu: 0, disk: 0 };
  const room = { weights: { ...none }, cache: { ...none }, activations: { ...none } };
  /** The most that some squares in a row bring along. */
  const most = (bytes: number, counts: readonly number[], squaresInRow: number, share: number): number => {
    const sizes = counts.map((count) => Math.round(bytes * count * share));
    return Math.max(0, ...sizes.map((_, end) => sizes.slice(Math.max(0, end + 1 - squaresInRow), end + 1).reduce((sum, each) => sum + each, 0)));
  };
  const addLoads = (kind: keyof Placement, bytes: number, counts: readonly number[], squaresInRow: number): void => {
    for (const home of TIERS) for (const tier of way(home, compute)) room[kind][tier] += most(bytes, counts, squaresInRow, placement[kind][home]);
  };
  const add = (kind: keyof Placement, bytes: number, count: number, through: (home: Tier) => readonly Tier[]): void => {
    for (const home of TIERS) for (const tier of through(home)) room[kind][tier] += count * Math.round(bytes * placement[kind][home]);
  };
  const order: readonly Tier[] = ['disk', 'cpu', 'gpu'];
  /** The tiers on the way from one to another, without the first. */
  const way = (from: Tier, to: Tier): Tier[] => {
    const [a, b] = [order.indexOf(from), order.indexOf(to)];
    return a <= b ? order.slice(a + 1, b + 1) : order.slice(b, a).reverse();
  };
  const loaded = (home: Tier): Tier[] => way(home, compute);
  const between = (home: Tier): Tier[] => way(compute, home).slice(0, -1);
  add('weights', layerWeights, aheads.weights + 1, loaded);
  addLoads('cache', tokenCache, contexts, aheads.cache + 1);
  addLoads('activations', tokenActivations, loadedTokens, aheads.activations + 1);
  add('cache', tokenCache * tokens, window, between);
  add('activations', tokenActivations * tokens, grid.slots, (home) => way(compute, home));
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
  return Math.round(home(given, tier) + pages * pageBytes(given) * given.placement.cache[tier]);
}

function capacity(given: JudgedSetup, tier: Tier): number {
  return inUse(given, tier, given.pages);
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

/** Notes, in virtual time, when rows get and lose their memory. */
export function lifeLog(device: Device, clock: SimulatedDevice, lives: Map<RowId, { from: number; until: number }>): Device {
  return overriding<Device>(device, {
    openRow: (...args) => {
      lives.set(args[1], { from: clock.announced, until: Infinity });
      device.openRow(...args);
    },
    closeRow: (...args) => {
      const life = lives.get(args[1]);
      if (life) life.until = Math.min(life.until, clock.announced);
      device.closeRow(...args);
    },
  });
}
