import { Observable } from 'rxjs';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkOneOf } from '../arguments/checks.js';
import { size, whole } from '../arguments/memberChecks.js';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import { hopsOf, QUEUE_NAMES, type QueueName, type TaskName } from '../engine/grid/Task.js';
import type { Move } from '../engine/memory/movement.js';
import { UsageError } from '../errors/UsageError.js';
import { parseBytes, type Size } from '../units.js';
import { partsOf, queueOf } from './compute.js';
import type { Stage } from './stageInternals.js';

/**
 * The limit of what one queue of a device may hold at once, for one run. At least one of `tasks` and `bytes` is given.
 */
export interface InFlightLimit {
  /** The queue whose tasks count, such as `disk-read`. One that the device does not have holds nothing. */
  readonly queue: QueueName;
  /** Tasks that may have been submitted and not completed, at least 1. Default: any number. */
  readonly tasks?: number;
  /** The amount that these tasks may move, in bytes or e.g. '1GiB'; tasks of compute queues move none. Default: any. */
  readonly bytes?: Size;
}

const CHECKS: Readonly<Record<keyof InFlightLimit, Check>> = {
  queue: (name, value) => {
    checkOneOf(name, value, QUEUE_NAMES);
  },
  tasks: whole(1),
  bytes: size,
};

/** Tasks, and what they move. */
interface Load {
  readonly tasks: number;
  readonly bytes: number;
}

/** A square that has passed, and what each stage to come will issue for it. */
interface Passed {
  readonly square: IssuedSquare;
  readonly demand: ReadonlyMap<TaskName, Load>;
}

/**
 * Bounds what a queue holds in flight: a square waits, before anything is issued for it, until what all stages will
 * issue for it on that queue fits beside what is there. Those after it wait as well, in order, and as they keep their
 * credits, the run's window fills up and its schedule is asked for no more. A square that is larger than the bound by
 * itself passes once the queue is empty, so nothing waits for ever.
 *
 *     squares    --a-b-c-----------|
 *     events           a   b           (tasks: 1)
 *     out        --a-----b---c-----|
 *
 * It stands in front of all stages, and of `serialize`; several, for several queues, stand side by side.
 *
 * @example
 * const pipeline = (run: StageContext) =>
 *   overlap(maxInFlight(run, { queue: 'disk-read', tasks: 4, bytes: '1GiB' }), defaultPipeline(run));
 *
 * @param run the run whose squares pass; only its own tasks count
 * @param limit the queue, and how many tasks and bytes may be submitted to it and not be completed
 * @returns a stage. Its stream ends with a UsageError where it stands after a stage that has issued something
 * @throws UsageError for an unknown queue, a bound out of range, or none
 */
export function maxInFlight(run: StageContext, limit: InFlightLimit): Stage {
  checkMembers('limit', limit, CHECKS, 'limit.');
  const { queue, tasks: mostTasks = Infinity, bytes } = limit;
  checkOneOf('limit.queue', queue, QUEUE_NAMES);
  if (mostTasks === Infinity && bytes === undefined)
    throw new UsageError('limit: found neither tasks nor bytes, expected at least one of them');
  const mostBytes = bytes === undefined ? Infinity : parseBytes(bytes, 'limit.bytes');
  return (squares$) =>
    new Observable((subscriber) => {
      const demandOnQueue = new Demand(run, queue);
      const waiting: IssuedSquare[] = [];
      let passed: Passed[] = [];
      let [draining, sourceDone] = [false, false];
      /** Lets squares pass while there is room. What they lead to may call again. */
      const drain = (): void => {
        if (draining) return;
        draining = true;
        try {
          let load = NOTHING;
          [passed, load] = underWay(passed, queue);
          for (let square = waiting[0]; square && !subscriber.closed; square = waiting[0]) {
            const demand = demandOnQueue.of(square);
            const more = sum(demand.values());
            const fits = load.tasks + more.tasks <= mostTasks && load.bytes + more.bytes <= mostBytes;
            if (!fits && load.tasks > 0 && more.tasks > 0) break;
            waiting.shift();
            if (more.tasks > 0) passed.push({ square, demand });
            load = sum([load, more]);
            demandOnQueue.passes(square);
            subscriber.next(square);
          }
          if (sourceDone && waiting.length === 0) subscriber.complete();
        } catch (error) {
          subscriber.error(error);
        } finally {
          draining = false;
        }
      };
      subscriber.add(
        run.device.completed$.subscribe(() => {
          if (waiting.length > 0) drain();
        }),
      );
      subscriber.add(
        squares$.subscribe({
          next: (square) => {
            const { all, series } = square.events;
            if (all.length > 0 || series) {
              subscriber.error(
                new UsageError(
                  'maxInFlight: found it after a stage that issues tasks, or within serialize, expected it in front of them',
                ),
              );
              return;
            }
            waiting.push(square);
            drain();
          },
          error: (error: unknown) => {
            subscriber.error(error);
          },
          complete: () => {
            sourceDone = true;
            drain();
          },
        }),
      );
    });
}

const NOTHING: Load = { tasks: 0, bytes: 0 };

function sum(loads: Iterable<Load>): Load {
  let [tasks, bytes] = [0, 0];
  for (const load of loads) [tasks, bytes] = [tasks + load.tasks, bytes + load.bytes];
  return { tasks, bytes };
}

/**
 * Finds those of the squares that have passed with something in flight on the queue or still to be issued; and all of
 * that.
 */
function underWay(passed: readonly Passed[], queue: QueueName): [Passed[], Load] {
  let all = NOTHING;
  const left = passed.filter(({ square: { events }, demand }) => {
    const issued = events.all
      .filter(({ timing, error }) => timing === undefined && error === undefined)
      .flatMap(({ task }) => hopsOf(task).filter((hop) => hop.queue === queue))
      .map(({ bytes }) => ({ tasks: 1, bytes }));
    const toCome = [...demand].filter(([name]) => !events.stages.has(name)).map(([, load]) => load);
    const load = sum([...issued, ...toCome]);
    all = sum([all, load]);
    return load.tasks > 0;
  });
  return [left, all];
}

/** The load that the stages will issue on a queue for a square, as they ask the run's movement, by stage. */
class Demand {
  /** The square that passed last: those that share its pass and layer share its weights' load. */
  private last: IssuedSquare | undefined;

  constructor(
    private readonly run: StageContext,
    private readonly queue: QueueName,
  ) {}

  of(square: IssuedSquare): ReadonlyMap<TaskName, Load> {
    const { run, queue, last } = this;
    const demand = new Map<TaskName, Load>();
    const add = (name: TaskName, routes: readonly (readonly Move[])[]): void => {
      const moves = routes
        .flat()
        .flatMap(hopsOf)
        .filter((move) => move.queue === queue);
      if (moves.length > 0) demand.set(name, sum(moves.map(({ bytes }) => ({ tasks: 1, bytes }))));
    };
    const parts = partsOf(square.layer, run).filter((part) => queueOf(run.device, part) === queue);
    if (parts.length > 0) demand.set('compute', { tasks: parts.length, bytes: 0 });
    if (last?.batch.pass !== square.batch.pass || last.layer !== square.layer)
      add('load_weight', run.movement.loadWeight(square));
    add(
      'load_cache',
      run.movement.loadCache(square, (row) => run.pagesOf(row)),
    );
    add('load_activation', run.movement.loadActivation(square));
    add('store_activation', run.movement.storeActivation(square));
    add(
      'store_cache',
      run.movement.storeCache(square, (row) => run.pagesOf(row)),
    );
    return demand;
  }

  passes(square: IssuedSquare): void {
    this.last = square;
  }
}
