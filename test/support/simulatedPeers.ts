import { lastValueFrom, toArray, type Observable } from 'rxjs';
import type { RowAttention } from '../../src/model/dividedLayer.js';
import { FollowingRun } from '../../src/engine/execution/FollowingRun.js';
import { RowFeed } from '../../src/engine/execution/RowFeed.js';
import { Run } from '../../src/engine/execution/Run.js';
import { RunRecorder } from '../../src/engine/execution/RunRecorder.js';
import { SimulatedDevice, type SimulationOptions } from '../../src/engine/execution/SimulatedDevice.js';
import type { RunOfSquares, SquareRunSetup } from '../../src/engine/execution/SquareRun.js';
import type { TaskEvent } from '../../src/engine/grid/Task.js';
import { simulatedLink } from '../../src/engine/execution/simulatedLink.js';
import { VirtualTime } from '../../src/engine/execution/VirtualTime.js';
import { PagePool } from '../../src/engine/memory/PagePool.js';
import { peerMovement } from '../../src/engine/memory/peerMovement.js';
import { requiredMoves } from '../../src/engine/memory/movement.js';
import type { JudgedRow, SharedStretch } from '../../src/engine/schedules/PathChecker.js';
import type { RowId } from '../../src/engine/grid/Square.js';
import { validatePath } from '../../src/engine/schedules/validatePath.js';
import { activationLink, type ActivationLink, type ActivationSink } from '../../src/engine/peers/ActivationLink.js';
import { beginOf, acceptBegin, type PeerFacts } from '../../src/engine/peers/begin.js';
import { ScheduleError } from '../../src/errors/engineErrors.js';
import { finishedRows } from '../../src/operators/finishedRows.js';
import { squares } from '../../src/operators/squares.js';
import { watchContents, type CacheContents } from './cacheContents.js';
import { inTime, judgeResults, late, lifeLog, type JudgedSetup } from './judgedRun.js';
import { watchSharing } from './watchSharing.js';
import {
  runRows,
  SIMULATED_BYTES,
  simulatedMovement,
  type SimulatedResult,
  type SimulatedRow,
} from './simulatedRun.js';

export interface PeersSetup extends JudgedSetup {
  /** Layers of each peer; their sum is the grid's, unless the peers share each layer. */
  readonly counts: readonly number[];
  /** Sums that the peers make of a layer, of which each has a share. Default: none, they divide layers. */
  readonly sums?: 1 | 2;
  /** Each of them attends to some rows. Default: to all. */
  readonly byRows?: boolean;
  /** Pages of each later peer, where they are not as many as the first one's. */
  readonly laterPages?: readonly number[];
  /** Tasks that fail, by peer. */
  readonly fail?: (peer: number) => SimulationOptions['fail'];
  /** Stands between a peer and the next. */
  readonly wrapLink?: (link: ActivationLink, from: number) => ActivationLink;
  readonly linkCapacity?: number;
  /** Virtual seconds that messages are on their way. Default: none, and links are not simulated. */
  readonly latencySeconds?: number;
  readonly sharePrefixes?: boolean;
  /** Slots of each later peer, where they are not as many as the first one's. */
  readonly laterSlots?: readonly number[];
  /** Default: as many as there are slots, for nothing streams. */
  readonly microBatches?: number | undefined;
  /** Of each peer, where they are another ring's, too. */
  readonly pools?: readonly PagePool[];
}

/** One of several connected runs, with what a test may want to look at. */
export interface SimulatedPeer {
  readonly run: RunOfSquares<SimulatedResult> & { readonly drained: Promise<void>; fail(error: Error): void };
  readonly results$: Observable<SimulatedResult>;
  readonly pool: PagePool;
  readonly events: readonly TaskEvent[];
  readonly setup: SquareRunSetup;
  readonly lives: ReadonlyMap<RowId, { readonly from: number; readonly until: number }>;
  readonly contents: CacheContents;
  /** To be called when all runs of its pool are over. */
  readonly nothingLeft: () => void;
  /** What all of them were told to admit: rows, of which it is said which one they are, and prefixes. */
  readonly admitted: readonly AdmittedRow[];
}

interface AdmittedRow extends JudgedRow {
  readonly given?: SimulatedRow | undefined;
}

/** Simulated devices in a ring, each with some of the layers. */
export function simulatedPeers(given: PeersSetup): SimulatedPeer[] {
  const { counts, grid, placement, wrapLink = (link: ActivationLink) => link, sharePrefixes = false } = given;
  const admitted: AdmittedRow[] = [];
  const { burst, ...simulation } = given.simulation ?? {};
  const time = new VirtualTime(burst);
  const links = counts.map((_, from) => {
    const { linkCapacity: capacity = 2, latencySeconds } = given;
    const link = wrapLink(
      latencySeconds === undefined ? activationLink({ capacity }) : simulatedLink(time, { latencySeconds, capacity }),
      from,
    );
    return from === 0 ? { ...link, sink: noting(link.sink, (row) => admitted.push(row), given) } : link;
  });
  let first = 0;
  return counts.map((count, index) => {
    const share = given.sums && {
      index,
      of: counts.length,
      sums: given.sums,
      ...(given.byRows === true && { attention: simulatedHeads(counts.length) }),
    };
    const part = share
      ? { layers: count, share }
      : { layers: count, ...(counts.length > 1 && { part: { first, of: grid.layers } }) };
    if (!share) first += count;
    const fail = given.fail?.(index);
    const device = new SimulatedDevice({ ...simulation, time, ...(fail && { fail }) });
    const pages = index === 0 ? given.pages : (given.laterPages?.[index - 1] ?? given.pages);
    const pool =
      given.pools?.[index] ??
      new PagePool(pages, given.pageTokens, undefined, undefined, undefined, share?.attention && share);
    const nothingLeft = watchSharing(pool);
    const events: TaskEvent[] = [];
    device.completed$.subscribe((burst_) => {
      for (const { event } of burst_) events.push(event);
    });
    const lives = new Map<RowId, { from: number; until: number }>();
    const [source, sink] = [links.at(index - 1)?.source, links[index]?.sink];
    if (!source || !sink) throw new RangeError('a ring of no peers');
    const slots = index === 0 ? grid.slots : (given.laterSlots?.[index - 1] ?? grid.slots);
    const ownGrid = { ...grid, ...part, slots };
    const watched = watchContents(lifeLog(device, device, lives), given.pageTokens);
    const setup: SquareRunSetup = {
      id: 1,
      device: watched.device,
      grid: ownGrid,
      movement: peerMovement(
        simulatedMovement(placement, device.computeTier, count),
        ownGrid,
        SIMULATED_BYTES.tokenActivations,
        device.computeTier,
      ),
      pool,
      window: given.window,
      recorder: new RunRecorder({ model: 'simulated', policy: {}, loadSeconds: 0, memory: () => ({}) }),
      ...(counts.length > 1 && { peers: { source, sink } }),
    };
    const facts: PeerFacts = {
      model: { layers: grid.layers, hiddenSize: 1, vocabularySize: 1000, family: 'simulated', contents: 'simulated' },
      layers: { first: share ? 0 : first - count, count },
      ...(share && {
        share: { index, of: share.of, ...(share.attention && { attention: 'rows' as const }) },
      }),
      streams: false,
      grid: { slots, rowsPerSlot: grid.rowsPerSlot, tokensPerSquare: grid.tokensPerSquare },
      cache: { pageTokens: given.pageTokens, diskShare: 0, mostDiskPages: 0 },
      pages: { gpu: 0, memory: pool.capacity, disk: 0 },
      sharesPages: share?.attention === undefined,
    };
    const rows = given.pauses === undefined ? given.rows : late(given.rows, given.pauses);
    const feed = new RowFeed(runRows(rows), given.ahead ?? grid.slots * grid.rowsPerSlot);
    const run =
      index === 0
        ? new Run<SimulatedResult>({
            ...setup,
            schedule: given.schedule,
            feed,
            begin: beginOf(facts),
            microBatches: given.microBatches,
            sharePrefixes,
          })
        : new FollowingRun({ ...setup, peers: { source, sink }, join: (begin) => acceptBegin(begin, facts) });
    const results$ = squares<SimulatedResult>(run).pipe(given.pipeline(run), finishedRows<SimulatedResult>(run));
    return { run, results$, pool, events, setup, lives, contents: watched.contents, nothingLeft, admitted };
  });
}

/** One head of keys and values for all, and a query head for each peer. */
function simulatedHeads(of: number): RowAttention {
  const shares = Array.from({ length: of }, (_, first) => ({
    queryHeads: { first, count: 1 },
    keyHeads: { first: 0, count: 1 },
  }));
  return { heads: of, kvHeads: 1, headDim: 1, shares };
}

/** A sink that says which rows are announced. */
function noting(
  sink: ActivationSink,
  note: (row: AdmittedRow) => void,
  { rows, pageTokens }: PeersSetup,
): ActivationSink {
  const writers = new Map<number, RowId>();
  const stretch = (page: number, end: number): SharedStretch => ({ row: writers.get(page) ?? NaN, end });
  return {
    ...sink,
    send: (message) => {
      if (message.kind === 'open') {
        const {
          row,
          sequence: { tokens },
          newTokens,
          prefix = false,
          sharing,
        } = message;
        const { pages = [], copy, own = [] } = sharing ?? {};
        const shared = [
          ...pages.map((page, index) => stretch(page, (index + 1) * pageTokens)),
          ...(copy ? [stretch(copy.page, copy.position)] : []),
        ];
        for (const page of own) writers.set(page, row);
        const given = prefix ? undefined : (rows.find(({ prompt }) => prompt === tokens) ?? rows[row]);
        note({ row, promptTokens: tokens.length + (prefix ? 1 : 0), newTokens, prefix, shared, given });
      }
      return sink.send(message);
    },
  };
}

/** What came of connected runs: the first one's results, and how each of them ended. */
export interface PeersOutcome {
  readonly results: readonly SimulatedResult[];
  readonly errors: readonly (Error | undefined)[];
}

/**
 * Runs until all of them have ended, in whatever way, and hold nothing any more.
 * @param stopAfter turns of the event loop after which whoever subscribed to the first one goes
 */
export async function settled(peers: readonly SimulatedPeer[], stopAfter = Infinity): Promise<PeersOutcome> {
  const results: SimulatedResult[] = [];
  const ends = peers.map(
    ({ results$ }, index) =>
      new Promise<Error | undefined>((resolve) => {
        const subscription = results$.subscribe({
          next: (result) => results.push(result),
          error: resolve,
          complete: () => {
            resolve(undefined);
          },
        });
        const wait = (turns: number): void => {
          if (turns > 0)
            setImmediate(() => {
              wait(turns - 1);
            });
          else {
            subscription.unsubscribe();
            resolve(undefined);
          }
        };
        if (index === 0 && stopAfter < Infinity) wait(stopAfter);
      }),
  );
  const errors = await inTime(Promise.all(ends));
  await inTime(Promise.all(peers.map(({ run }) => run.drained)));
  for (const { lives, contents, nothingLeft } of peers) {
    if (contents.wrong.length > 0) throw new Error(contents.wrong[0]);
    nothingLeft();
    if ([...lives.values()].some(({ until }) => until === Infinity)) throw new Error('a row was not closed');
  }
  return { results, errors };
}

/** Runs to the end, and judges each peer's path and that of all together. @throws whatever is not as it has to be */
export async function runAndJudgePeers(given: PeersSetup): Promise<SimulatedPeer[]> {
  const peers = simulatedPeers(given);
  const [first, ...later] = peers;
  if (!first) throw new RangeError('no peers');
  const following = later.map(({ results$ }) => lastValueFrom(results$, { defaultValue: undefined }));
  const [results] = await inTime(Promise.all([lastValueFrom(first.results$.pipe(toArray())), ...following]));
  await inTime(Promise.all(peers.map(({ run }) => run.drained)));
  judgeResults(given.rows, results);
  if (results.length !== given.rows.length)
    throw new Error(`${results.length} of ${given.rows.length} rows have come to an end`);
  judgePeers(given, peers);
  return peers;
}

/** @throws ScheduleError with the constraint that a trace breaks: each peer's, or that of all of them together */
export function judgePeers(given: PeersSetup, peers: readonly SimulatedPeer[]): void {
  const rows = peers[0]?.admitted ?? [];
  const early = new Set(
    rows.flatMap(({ row, newTokens, given: { endsAfter = Infinity } = {} }) => (endsAfter < newTokens ? [row] : [])),
  );
  for (const { setup, events, lives, contents, nothingLeft } of peers) {
    validatePath(setup.grid, rows, events, early, { moves: requiredMoves(setup.movement), lives });
    if (contents.wrong.length > 0) throw new Error(contents.wrong[0]);
    nothingLeft();
  }
  // Where all peers have every layer, each path is whole by itself.
  if (given.sums) return;
  judgeNeighbours(
    given,
    rows,
    peers.flatMap(({ events }) => events),
  );
}

/**
 * Between peers too, every layer of every position is computed once, after the layer before, and a sampled token's
 * after the last layer of the position before.
 */
function judgeNeighbours({ grid }: PeersSetup, rows: readonly JudgedRow[], events: readonly TaskEvent[]): void {
  const prompts = new Map(rows.map(({ row, promptTokens }) => [row, promptTokens]));
  const spans = new Map<string, { start: number; end: number }>();
  for (const { task, timing } of events) {
    if (task.name !== 'compute' || !timing) continue;
    for (const { row, firstPosition, tokens } of task.batch.rows) {
      for (let position = firstPosition; position < firstPosition + tokens; position++) {
        const key = `${row} ${position} ${task.layer}`;
        const span = spans.get(key);
        spans.set(key, {
          start: Math.min(timing.start, span?.start ?? Infinity),
          end: Math.max(timing.end, span?.end ?? 0),
        });
      }
    }
  }
  for (const [key, { start }] of spans) {
    const [row = 0, position = 0, layer = 0] = key.split(' ').map(Number);
    const sampled = layer === 0 && position >= (prompts.get(row) ?? 0);
    const before =
      layer > 0
        ? spans.get(`${row} ${position} ${layer - 1}`)
        : sampled
          ? spans.get(`${row} ${position - 1} ${grid.layers - 1}`)
          : undefined;
    if ((layer > 0 || sampled) && !before)
      throw new ScheduleError(
        'left-neighbour',
        `row ${row}, position ${position}, layer ${layer}: its left neighbour is missing`,
      );
    if (before && before.end > start)
      throw new ScheduleError(
        'left-neighbour',
        `row ${row}, position ${position}, layer ${layer}: starts before its left neighbour has ended`,
      );
  }
}
