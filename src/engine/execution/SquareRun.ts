import type { Observable, Subscriber } from 'rxjs';
import { errorOf } from '../../errors/errorOf.js';
import type { Completion, Device } from '../grid/Device.js';
import type { PageTable } from '../grid/PageTable.js';
import { type Grid, type RowId, type Square } from '../grid/Square.js';
import type { TaskEvent, TaskName } from '../grid/Task.js';
import type { Move, Movement } from '../memory/movement.js';
import type { SteadySweeps } from '../memory/PagePool.js';
import { PeerConnection, type Peers } from '../peers/PeerConnection.js';
import type { RunMessage } from '../peers/PeerMessage.js';
import { HeldRows, type HeldRow, type HeldRowsSetup } from './HeldRows.js';
import type { IssuedSquare } from './IssuedSquare.js';
import { LastStores, type StageContext, type StageTask } from './StageContext.js';
import { RunLifecycle, type LifecycleSetup } from './RunLifecycle.js';
import { SquareWindow, type WindowSetup } from './SquareWindow.js';

export interface SquareRunSetup extends LifecycleSetup, WindowSetup, Omit<HeldRowsSetup, 'steady'> {
  /** The engines that have the model's other layers, where the grid is a part of them. */
  readonly peers?: Peers | undefined;
}

/** A run as operators need it, whoever decides on its squares. */
export interface RunOfSquares<Result> extends StageContext {
  /** True once all squares of the run have come, and have passed all stages. */
  readonly finished: boolean;
  /**
   * Results that are not a square's of this run: those of rows whose tokens are sampled elsewhere. Completes when
   * squares under way will lead to nothing.
   */
  readonly returned$: Observable<Result>;
  connect(subscriber: Subscriber<IssuedSquare>): void;
  close(error?: Error): void;
  /** Ends the run with an error, which its squares end with, too. */
  fail(error: unknown): void;
  retire(square: IssuedSquare): Result[];
}

/** The parts that make up a run. */
export interface RunParts<Row extends HeldRow> {
  readonly life: RunLifecycle;
  readonly rows: HeldRows<Row>;
  readonly window: SquareWindow;
  readonly connection: PeerConnection | undefined;
}

/** Which squares come in a run, and what becomes of them. */
export interface SquareSource<Result, Row extends HeldRow> {
  readonly returned$: Observable<Result>;
  /** Somebody has subscribed. */
  begin(): void;
  /** The next square, if it is known yet. */
  next(): Square | undefined;
  /** A square is about to enter the window. */
  entering?(square: Square): void;
  /** No further square can enter now. */
  paused(): void;
  /** A task has completed. */
  completed?(completion: Completion): void;
  /**
   * A square has passed all stages: the results of rows that end with it.
   * @param last nothing of its batch is under way any more
   */
  retired(square: IssuedSquare, last: boolean): Result[];
  /** A row has given its memory back. */
  released?(row: RowId, held: Row): void;
  /** A page of the cache is kept for rows to come no longer. */
  freed?(page: number): void;
  /** From a peer. @throws PeerError for what it should not say */
  received(message: RunMessage): void;
  /** The peer before will send nothing more. */
  sourceEnded(): void;
  /** The run ends: nothing more is issued. */
  closing(): void;
}

/** A run as stages and operators see it: a lifecycle, the rows that it holds, a window, and whoever says what comes. */
export class SquareRun<
  Row extends HeldRow,
  Result,
  Source extends SquareSource<Result, Row> = SquareSource<Result, Row>,
> implements RunOfSquares<Result> {
  readonly grid: Grid;
  readonly device: Device;
  readonly movement: Movement;
  readonly lastStores = new LastStores();
  readonly returned$: Observable<Result>;
  private readonly life: RunLifecycle;
  private readonly rows: HeldRows<Row>;
  private readonly window: SquareWindow;
  protected readonly source: Source;

  constructor(setup: SquareRunSetup, steady: SteadySweeps | undefined, sourceOf: (parts: RunParts<Row>) => Source) {
    const { id, grid, device, movement, pool, peers } = setup;
    this.grid = grid;
    this.device = device;
    this.movement = movement;
    const connection =
      peers &&
      new PeerConnection(peers, grid, {
        onMessage: (message) => {
          this.life.guarded(() => {
            this.source.received(message);
          });
        },
        onEnd: () => {
          this.life.guarded(() => {
            this.source.sourceEnded();
          });
        },
        onFailure: (error) => {
          this.fail(error);
        },
      });
    try {
      this.life = new RunLifecycle(setup, connection, {
        begin: () => {
          this.source.begin();
        },
        completed: (completion) => this.source.completed?.(completion),
        closing: (error) => {
          this.source.closing();
          connection?.close(error);
        },
        drained: () => {
          this.rows.close();
        },
      });
    } catch (error) {
      // The device takes no further run: peers learn it, instead of waiting for one that never begins.
      connection?.close(errorOf(error));
      throw error;
    }
    this.rows = new HeldRows(
      { ...setup, steady },
      {
        released: (row, held) => {
          device.closeRow(id, row);
          this.source.released?.(row, held);
        },
        freed: (page) => this.source.freed?.(page),
      },
    );
    this.window = new SquareWindow(setup, this.rows, this.life, {
      next: () => this.source.next(),
      entering: (square) => this.source.entering?.(square),
      paused: () => {
        this.source.paused();
      },
    });
    this.source = sourceOf({ life: this.life, rows: this.rows, window: this.window, connection });
    this.returned$ = this.source.returned$;
    this.life.listen(
      pool.released$.subscribe(() => {
        this.window.ask();
      }),
    );
  }

  get finished(): boolean {
    return this.life.finished;
  }

  /** Nothing more is issued. */
  get closed(): boolean {
    return this.life.closed;
  }

  /** Resolved when nothing of the run is left on the device. */
  get drained(): Promise<void> {
    return this.life.drained;
  }

  pagesOf(row: RowId): PageTable | undefined {
    return this.rows.get(row)?.pages;
  }

  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent {
    return this.window.issue(square, task, after);
  }

  issueMoves(
    square: IssuedSquare,
    name: TaskName,
    routes: readonly (readonly Move[])[],
    after: readonly TaskEvent[],
  ): TaskEvent[] {
    return this.window.issueMoves(square, name, routes, after);
  }

  connect(subscriber: Subscriber<IssuedSquare>): void {
    this.life.connect(subscriber);
  }

  /**
   * Called for every square that has passed all stages: returns its credit, and the results of rows that ended with it.
   */
  retire(square: IssuedSquare): Result[] {
    return this.source.retired(square, this.window.leave(square));
  }

  /** @param error what peers are told; by default the first task's that has failed */
  close(error?: Error): void {
    this.life.close(error);
  }

  fail(error: unknown): void {
    this.life.fail(error);
  }

  /**
   * Waits until nothing of the run is left on the device. @throws what a callback threw, where no error of the stream
   * could say so: its consumer had gone
   */
  settled(): Promise<void> {
    return this.life.settled();
  }
}
