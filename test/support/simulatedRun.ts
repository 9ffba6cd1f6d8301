import type { Device } from '../../src/engine/execution/Device.js';
import { RowFeed } from '../../src/engine/execution/RowFeed.js';
import { Run } from '../../src/engine/execution/Run.js';
import type { RunRow } from '../../src/engine/execution/RunRow.js';
import { RunRecorder, type RecorderSetup } from '../../src/engine/execution/RunRecorder.js';
import { SimulatedDevice, type SimulationOptions } from '../../src/engine/execution/SimulatedDevice.js';
import type { TaskEvent, Tier } from '../../src/engine/execution/Task.js';
import { ALL_ON_CPU, movement, type Movement, type Placement } from '../../src/engine/memory/movement.js';
import { PagePool } from '../../src/engine/memory/PagePool.js';
import { diagonalBlock } from '../../src/engine/schedules/diagonalBlock.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import type { Grid } from '../../src/engine/schedules/Square.js';

/** A row of a simulated run: its lengths, and optionally after how many tokens it ends early. */
export interface SimulatedRow {
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly endsAfter?: number;
}

export interface SimulatedSetup {
  readonly grid: Grid;
  readonly rows: Iterable<SimulatedRow> | AsyncIterable<SimulatedRow>;
  readonly schedule?: Schedule;
  readonly placement?: Placement;
  readonly pages?: number;
  readonly pageTokens?: number;
  readonly window?: number;
  readonly ahead?: number;
  readonly simulation?: SimulationOptions;
  readonly signal?: AbortSignal;
  /** Stands between the run and the simulated device. */
  readonly wrapDevice?: (device: SimulatedDevice) => Device;
  /** Bytes in use, for the trace. */
  readonly memory?: (pool: PagePool) => ReturnType<RecorderSetup['memory']>;
  readonly onTrace?: RecorderSetup['onTrace'];
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
}

export function simulatedRun(setup: SimulatedSetup): SimulatedRun {
  const { grid, rows, pages = 1_000_000, pageTokens = 4 } = setup;
  const device = new SimulatedDevice(setup.simulation);
  const pool = new PagePool(pages, pageTokens);
  const events: TaskEvent[] = [];
  device.completed$.subscribe((burst) => {
    for (const { event } of burst) events.push(event);
  });
  const recorder = new RunRecorder({ model: 'simulated', policy: {}, loadSeconds: 0, memory: () => setup.memory?.(pool) ?? {}, onTrace: setup.onTrace });
  const run = new Run<SimulatedResult>({
    id: 1,
    device: setup.wrapDevice?.(device) ?? device,
    grid,
    movement: simulatedMovement(setup.placement ?? ALL_ON_CPU, device.computeTier, grid.layers),
    schedule: setup.schedule ?? diagonalBlock(),
    pool,
    window: setup.window ?? 8,
    feed: new RowFeed(runRows(rows), setup.ahead ?? grid.slots * grid.rowsPerSlot),
    recorder,
    signal: setup.signal,
  });
  return { run, device, pool, recorder, events };
}

export function simulatedMovement(placement: Placement, compute: Tier, layers: number): Movement {
  return movement(placement, { ...SIMULATED_BYTES, layerWeights: new Array<number>(layers).fill(SIMULATED_BYTES.layerWeights) }, compute, layers);
}

export async function* runRows(rows: SimulatedSetup['rows']): AsyncGenerator<RunRow<SimulatedResult>> {
  let index = 0;
  for await (const row of rows) yield runRow(row, index++);
}

function runRow({ promptTokens, newTokens, endsAfter = Infinity }: SimulatedRow, index: number): RunRow<SimulatedResult> {
  const tokens: number[] = [];
  let scored = 0;
  return {
    sequence: {
      tokens: new Array<number>(promptTokens).fill(1),
      capacityTokens: promptTokens + newTokens,
      temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0, logprobs: -1,
    },
    newTokens,
    accept: (head, row) => {
      if (newTokens === 0) return (scored += head.scored.get(row)?.length ?? 0) >= promptTokens - 1 ? { index, tokens } : undefined;
      const sampled = head.sampled.get(row);
      if (sampled) tokens.push(sampled.token);
      return tokens.length >= Math.min(newTokens, endsAfter) ? { index, tokens } : undefined;
    },
  };
}
