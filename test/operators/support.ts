import { describe, expect, test } from '@jest/globals';
import { EMPTY, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { SimulatedDevice, type SimulationOptions } from '../../src/engine/execution/SimulatedDevice.js';
import { issuedSquare, issueFor, type IssuedSquare } from '../../src/engine/execution/IssuedSquare.js';
import { LastStores } from '../../src/engine/execution/StageContext.js';
import type { StageContext } from '../../src/engine/execution/Run.js';
import type { TaskEvent } from '../../src/engine/grid/Task.js';
import { movement, type Placement } from '../../src/engine/memory/movement.js';
import type { Stage } from '../../src/operators/stageInternals.js';

/**
 * A context for stages without a run around it: tasks go to a simulated device, and are written down with what they
 * wait for.
 */
export interface StageBench extends StageContext {
  readonly device: SimulatedDevice;
  /**
   * In order of issue: what was issued, and the tasks it waits for, in words such as `load_weight 0 1 0` (pass, layer,
   * slot).
   */
  readonly issued: { readonly task: string; readonly after: readonly string[] }[];
}

export const words = ({ task }: TaskEvent): string =>
  `${task.name}${task.part ? `.${task.part}` : ''} ${task.batch.pass} ${task.layer} ${task.batch.slot}`;

/** A third of everything on each tier. */
export const SPREAD: Placement = {
  weights: { gpu: 1 / 3, cpu: 1 / 3, disk: 1 / 3 },
  cache: { gpu: 1 / 3, cpu: 1 / 3, disk: 1 / 3 },
  activations: { gpu: 1 / 3, cpu: 1 / 3, disk: 1 / 3 },
};

export function stageBench(placement: Placement, simulation: SimulationOptions = {}, layers = 3): StageBench {
  const device = new SimulatedDevice(simulation);
  const issued: { task: string; after: readonly string[] }[] = [];
  const bench: StageBench = {
    grid: { layers, slots: 2, rowsPerSlot: 2, tokensPerSquare: 8 },
    device,
    issued,
    lastStores: new LastStores(),
    pagesOf: () => undefined,
    movement: movement(
      placement,
      { layerWeights: new Array<number>(layers).fill(300), tokenCache: 30, tokenActivations: 90 },
      device.computeTier,
      layers,
    ),
    issue: (square, task, after) => {
      const { batch, layer } = square;
      const event = issueFor(square, after, (waitsFor) => {
        const submitted = device.submit({ bytes: 0, ...task, run: 1, batch, layer }, waitsFor);
        issued.push({ task: words(submitted), after: waitsFor.map(words) });
        return submitted;
      });
      square.events.stages.add(task.name);
      return event;
    },
    issueMoves: (square, name, routes, after) => {
      square.events.stages.add(name);
      return routes.flatMap((route) => {
        let last: TaskEvent | undefined;
        for (const move of route) last = bench.issue(square, { name, ...move }, last ? [last] : after);
        return last ? [last] : [];
      });
    },
  };
  return bench;
}

/** The square of one decode token of row 0, `firstPosition` tokens into it. */
export function square(pass: number, layer: number, slot = 0, firstPosition = 4): IssuedSquare {
  return issuedSquare({
    batch: { pass, slot, rows: [{ row: slot, firstPosition, tokens: 1, head: 'sample' }] },
    layer,
  });
}

/**
 * What every stage owes to RxJS: it passes squares through in order, and never, empty, errors and unsubscription as
 * they are.
 */
export function describeStage(name: string, make: (bench: StageBench) => Stage, { waits = false } = {}): void {
  describe(`${name}, as an operator`, () => {
    const bench = (): StageBench => stageBench(SPREAD);
    const run = (source$: Observable<IssuedSquare>, stage = make(bench())): { seen: unknown[]; stop: () => void } => {
      const seen: unknown[] = [];
      const subscription = source$.pipe(stage).subscribe({
        next: (value) => seen.push(value),
        error: (error: unknown) => seen.push(error),
        complete: () => seen.push('complete'),
      });
      return {
        seen,
        stop: () => {
          subscription.unsubscribe();
        },
      };
    };
    const settle = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    };

    test('never stays never', async () => {
      const { seen, stop } = run(NEVER);
      await settle();
      expect(seen).toEqual([]);
      stop();
    });

    test('empty stays empty', () => {
      expect(run(EMPTY).seen).toEqual(['complete']);
    });

    test('one square, and many in order', async () => {
      const one = square(0, 0);
      const first = run(of(one));
      await settle();
      expect(first.seen).toEqual([one, 'complete']);
      const many = [square(0, 0), square(0, 1), square(0, 2), square(1, 0)];
      const all = run(of(...many));
      await settle();
      expect(all.seen).toEqual([...many, 'complete']);
    });

    test('an error of the source goes through, after what came before it', () => {
      const error = new Error('the source broke');
      expect(run(throwError(() => error)).seen).toEqual([error]);
      const source$ = new Subject<IssuedSquare>();
      const { seen } = run(source$);
      const one = square(0, 0);
      source$.next(one);
      source$.error(error);
      expect(seen).toEqual([one, error]);
    });

    test('unsubscribing stops the source', () => {
      let stopped = false;
      const { stop } = run(new Observable(() => () => (stopped = true)));
      expect(stopped).toBe(false);
      stop();
      expect(stopped).toBe(true);
    });

    test('a throw while issuing is the error of the stream', async () => {
      const broken = stageBench(SPREAD);
      const error = new Error('no such queue');
      const throwing: StageBench = {
        ...broken,
        issue: () => {
          throw error;
        },
        issueMoves: () => {
          throw error;
        },
        device: new Proxy(broken.device, {}),
      };
      const { seen } = run(of(square(0, 1)), make(throwing));
      await settle();
      expect(seen.at(-1)).toBe(waits ? 'complete' : error);
    });
  });
}
