import { GREEDY } from '../../src/engine/execution/greedy.js';
import { type JoinedCall } from '../../src/engine/execution/JoinedCall.js';
import { RowFeed } from '../../src/engine/execution/RowFeed.js';
import { Run } from '../../src/engine/execution/Run.js';
import { RunRecorder } from '../../src/engine/execution/RunRecorder.js';
import type { RunRow } from '../../src/engine/execution/RunRow.js';
import { SimulatedDevice, type SimulationOptions } from '../../src/engine/execution/SimulatedDevice.js';
import { StandingRun } from '../../src/engine/execution/StandingRun.js';
import type { Grid } from '../../src/engine/grid/Square.js';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { PagePool } from '../../src/engine/memory/PagePool.js';
import { diagonalBlock } from '../../src/engine/schedules/blockSchedules.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import { throughStages } from '../../src/operators/throughStages.js';
import type { RunStats } from '../../src/RunStats.js';
import { simulatedMovement } from './simulatedRun.js';
import { watchSharing } from './watchSharing.js';

export interface CallRow {
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly endsAfter?: number;
  /** Its prompt begins with so many tokens that all such prompts have, of all calls. Default 0. */
  readonly commonTokens?: number;
  /** Its tokens are not what can be taken: the call's error. */
  readonly throws?: boolean;
}

export interface SimulatedCallSetup {
  readonly rows: readonly CallRow[];
  readonly priority?: number;
  readonly sharePrefixes?: boolean;
  readonly ahead?: number;
  readonly signal?: AbortSignal;
  /** Turns of the event loop before each row. */
  readonly pause?: number;
  /** By which its rows are told from others'. Default: how many calls began before it. */
  readonly call?: number;
  /** The source fails after its rows. */
  readonly sourceFails?: boolean;
}

/** What has become of a call. */
export interface SimulatedCall {
  readonly joined: JoinedCall<CallResult>;
  readonly results: CallResult[];
  /** Stops taking results. */
  readonly leave: () => void;
  /** Resolves when it is over; with its error, where it has one. */
  readonly over: Promise<unknown>;
  readonly stats: () => RunStats | undefined;
}

export interface CallResult {
  readonly call: number;
  readonly index: number;
  readonly tokens: readonly number[];
}

export interface SimulatedCalls {
  readonly device: SimulatedDevice;
  readonly pool: PagePool;
  /** Passes that have been computed, wholly or in part. */
  readonly passes: () => number;
  /** Rows that were computed at once in one pass, at most. */
  readonly mostRows: () => number;
  /** Called with each token of a row. */
  onToken: (call: number, index: number) => void;
  begin(setup: SimulatedCallSetup): SimulatedCall;
  /** Resolves when the run is over. */
  drained(): Promise<void>;
  nothingLeft(): void;
}

/** The token that a row samples for a position follows from its own prompt alone. */
export function tokenOf(call: number, index: number, position: number): number {
  return 1_000_000 + 10_000 * call + 100 * index + (position % 100);
}

/** Calls that join one run on the simulated device. */
export function simulatedCalls(setup: {
  readonly grid: Grid;
  readonly pages: number;
  readonly pageTokens: number;
  readonly window?: number;
  readonly schedule?: () => Schedule;
  readonly simulation?: SimulationOptions;
}): SimulatedCalls {
  const { grid, pages, pageTokens, window = 8, schedule = diagonalBlock } = setup;
  const device = new SimulatedDevice({
    ...setup.simulation,
    sample: ({ tokens }, position) => {
      const [own = 0] = tokens.slice(-1);
      return tokenOf(Math.floor(own / 100), own % 100, position);
    },
  });
  const pool = new PagePool(pages, pageTokens);
  const nothingLeft = watchSharing(pool);
  const passes = new Set<string>();
  let mostRows = 0;
  device.completed$.subscribe((burst) => {
    for (const { event } of burst) {
      const { run, batch } = event.task;
      passes.add(`${run} ${batch.pass}`);
      mostRows = Math.max(mostRows, batch.rows.length);
    }
  });
  let calls = 0;
  const runs: Run<unknown>[] = [];
  const recorderOf = (
    more: Partial<ConstructorParameters<typeof RunRecorder>[0]> = {},
    run?: RunRecorder,
  ): RunRecorder =>
    new RunRecorder({ model: 'simulated', policy: {}, loadSeconds: 0, memory: () => ({}), ...more }, run);
  const standing = new StandingRun({
    open: (computed) => {
      const recorder = recorderOf({ computed });
      const run = new Run<unknown>({
        id: runs.length + 1,
        device,
        grid,
        movement: simulatedMovement(ALL_ON_CPU, 'cpu', grid.layers),
        schedule: schedule(),
        pool,
        window,
        recorder,
        sharePrefixes: true,
      });
      runs.push(run);
      return { run, recorder };
    },
    through: (run) => throughStages(run),
  });
  const all: SimulatedCalls = {
    device,
    pool,
    passes: () => passes.size,
    mostRows: () => mostRows,
    onToken: () => undefined,
    begin: (given) => {
      const { call = calls } = given;
      calls++;
      let stats: RunStats | undefined;
      const recorder = recorderOf({ onStats: (told) => (stats = told) }, standing.recorder);
      const results: CallResult[] = [];
      const joined = standing.call<CallResult>({
        feed: new RowFeed(
          rowsOf(call, given, (index) => all.onToken(call, index)),
          given.ahead ?? 8,
        ),
        recorder,
        priority: given.priority,
        sharePrefixes: given.sharePrefixes,
        signal: given.signal,
      });
      let leave: () => void = () => undefined;
      const over = new Promise((resolve) => {
        const subscription = joined.results$.subscribe({
          next: (result) => results.push(result),
          error: resolve,
          complete: () => {
            resolve(undefined);
          },
        });
        leave = () => {
          subscription.unsubscribe();
          resolve(undefined);
        };
      });
      return { joined, results, over, leave, stats: () => stats };
    },
    drained: async () => {
      await Promise.all(runs.map((run) => run.drained));
    },
    nothingLeft,
  };
  return all;
}

async function* rowsOf(
  call: number,
  { rows, pause = 0, sourceFails = false }: SimulatedCallSetup,
  onToken: (index: number) => void,
): AsyncGenerator<RunRow<CallResult>> {
  for (const [index, row] of rows.entries()) {
    for (let turn = 0; turn < pause; turn++) await new Promise((resolve) => setImmediate(resolve));
    yield rowOf(call, index, row, onToken);
  }
  if (sourceFails) throw new Error(`no more rows of call ${call}`);
}

function rowOf(
  call: number,
  index: number,
  { promptTokens, newTokens, endsAfter = Infinity, commonTokens = 0, throws = false }: CallRow,
  onToken: (index: number) => void,
): RunRow<CallResult> {
  const own = 100 * call + index;
  const common = Math.min(commonTokens, promptTokens - 1);
  const tokens: number[] = [];
  let scored = 0;
  return {
    sequence: {
      ...GREEDY,
      tokens: Array.from({ length: promptTokens }, (_, at) => (at < common ? at : own)),
      capacityTokens: promptTokens + newTokens,
    },
    newTokens,
    accept: (head, row) => {
      if (newTokens === 0)
        return (scored += head.scored.get(row)?.length ?? 0) >= promptTokens - 1 ? { call, index, tokens } : undefined;
      const sampled = head.sampled.get(row);
      if (!sampled) return undefined;
      if (throws) throw new Error(`row ${index} of call ${call}`);
      tokens.push(sampled.token);
      onToken(index);
      return tokens.length >= Math.min(newTokens, endsAfter) ? { call, index, tokens } : undefined;
    },
  };
}
