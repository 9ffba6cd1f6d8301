import { expect } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import type { Task } from '../../src/engine/grid/Task.js';
import { requiredMoves } from '../../src/engine/memory/movement.js';
import { PagePool } from '../../src/engine/memory/PagePool.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import { rowsOfTrace } from '../../src/engine/schedules/recordsOfTrace.js';
import { validatePath } from '../../src/engine/schedules/validatePath.js';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { finishedRows } from '../../src/operators/finishedRows.js';
import { squares } from '../../src/operators/squares.js';
import type { RunStats, TraceEvent } from '../../src/RunStats.js';
import { watchContents, type CacheContents } from './cacheContents.js';
import { withoutEdge, type Edge } from './droppedEdges.js';
import { inTime, judgeResults, late } from './judgedRun.js';
import { simulatedRun, type SimulatedRow } from './simulatedRun.js';

/** A simulated run of rows that may share what they begin with. */
export interface SharingSetup {
  readonly rows: readonly SimulatedRow[];
  readonly schedule: Schedule;
  readonly pageTokens: number;
  readonly pages: number;
  readonly slots: number;
  readonly rowsPerSlot: number;
  readonly tokensPerSquare: number;
  readonly window: number;
  readonly ahead: number;
  readonly pauses?: readonly number[];
  readonly sharePrefixes?: boolean;
  /** A GPU computes, to which pages come from memory; tasks of a queue in any order, of these durations. */
  readonly fetched?: { readonly duration: (task: Task) => number; readonly dropped?: Edge };
}

/** Layers of its model. */
export const LAYERS = 2;

export function openSharing(
  { rows, pageTokens, pages, pauses, sharePrefixes = true, fetched, ...given }: SharingSetup,
  fail?: () => string | undefined,
) {
  const { schedule, slots, rowsPerSlot, tokensPerSquare, window, ahead } = given;
  const pool = new PagePool(pages, pageTokens);
  const grid = { layers: LAYERS, slots, rowsPerSlot, tokensPerSquare };
  const trace: TraceEvent[] = [];
  let contents: CacheContents | undefined;
  let stats: RunStats | undefined;
  const simulated = simulatedRun({
    grid,
    rows: pauses ? late(rows, pauses) : rows,
    schedule,
    pool,
    pageTokens,
    window,
    ahead,
    sharePrefixes,
    ...(fetched && { moves: 'fetched-pages' }),
    simulation: {
      duration: () => 1,
      ...(fetched && { duration: fetched.duration, computeTier: 'gpu', unordered: true }),
      ...(fail && { fail }),
    },
    wrapDevice: (device) => {
      const watched = watchContents(fetched?.dropped ? withoutEdge(fetched.dropped)(device) : device, pageTokens);
      contents = watched.contents;
      return watched.device;
    },
    onTrace: (event) => trace.push(event),
    onStats: (final) => {
      stats = final;
    },
  });
  const results$ = squares(simulated.run).pipe(defaultPipeline(simulated.run), finishedRows(simulated.run));
  return {
    ...simulated,
    results$,
    grid,
    trace,
    contents: (): CacheContents => contents ?? { rows: new Map(), wrong: [] },
    saved: () => stats?.sharing.promptTokensSaved,
  };
}

/** Runs to the end: every row has its own tokens, sees its own, computes after what it shares, and nothing is left. */
export async function playSharing(setup: SharingSetup) {
  const opened = openSharing(setup);
  const results = await inTime(lastValueFrom(opened.results$.pipe(toArray())));
  await inTime(opened.run.drained);
  judgeResults(setup.rows, results);
  expect(results).toHaveLength(setup.rows.length);
  expect(opened.contents().wrong).toEqual([]);
  const admitted = rowsOfTrace(opened.trace);
  const early = setup.rows.some(({ newTokens, endsAfter = Infinity }) => endsAfter < newTokens)
    ? new Set(admitted.map(({ row }) => row))
    : new Set<number>();
  const { rows: seen } = opened.contents();
  validatePath(opened.grid, admitted, opened.events, early, {
    ...(setup.fetched && { moves: requiredMoves(opened.run.movement, (row) => seen.get(row)?.pages) }),
  });
  opened.nothingLeft();
  return opened;
}

/** The prompts of rows, and of prefixes, in order of admission. */
export const admissions = ({ rows }: CacheContents): (readonly number[])[] =>
  [...rows.values()].map(({ sequence }) => sequence.tokens);

/** Positions of the model's first layer that were computed. */
export const computed = ({ rows }: CacheContents): number =>
  [...rows.values()].reduce((sum, row) => sum + (row.computed.get(0) ?? 0), 0);
