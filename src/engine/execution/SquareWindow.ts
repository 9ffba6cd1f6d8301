import { layerBounds, type Grid, type Square } from '../grid/Square.js';
import type { TaskEvent, TaskName } from '../grid/Task.js';
import { type Move, type Movement, requiredMoves } from '../memory/movement.js';
import { PathChecker } from '../schedules/PathChecker.js';
import { CompositionChecker } from './CompositionChecker.js';
import type { HeldRow, HeldRows } from './HeldRows.js';
import { issuedSquare, issueFor, type IssuedSquare } from './IssuedSquare.js';
import type { RunLifecycle } from './RunLifecycle.js';
import type { RunRecorder } from './RunRecorder.js';
import type { StageTask } from './StageContext.js';

export interface WindowSetup {
  readonly grid: Grid;
  readonly movement: Movement;
  /** Squares that may be under way at once. */
  readonly window: number;
  readonly recorder: RunRecorder;
}

export interface WindowEvents {
  /** The next square, if it is known yet. */
  next(): Square | undefined;
  entering(square: Square): void;
  /** No further square can enter now. */
  paused(): void;
}

/**
 * Lets squares into the stages as there are credits and memory has room, and checks that they keep to the constraints
 * of a path and pass all stages.
 */
export class SquareWindow {
  readonly path: PathChecker;
  private readonly composition: CompositionChecker;
  private readonly firstLayer: number;
  private readonly lastLayer: number;
  private credits: number;
  /** The next square, while there is no memory for it. */
  private held: Square | undefined;
  private pumping = false;
  private asked = false;

  constructor(
    private readonly setup: WindowSetup,
    private readonly rows: HeldRows<HeldRow>,
    private readonly life: RunLifecycle,
    private readonly events: WindowEvents,
  ) {
    const { grid, movement, window } = setup;
    const { first, last } = layerBounds(grid);
    this.firstLayer = first;
    this.lastLayer = last;
    this.credits = window;
    this.path = new PathChecker(grid);
    this.composition = new CompositionChecker(requiredMoves(movement, (row) => rows.get(row)?.pages));
  }

  /** Nothing is under way. */
  get idle(): boolean {
    return this.credits === this.setup.window;
  }

  /** There is no memory for the next square. */
  get lacksMemory(): boolean {
    return this.held !== undefined;
  }

  /** Something has changed: squares may be able to enter. */
  ask(): void {
    if (this.asked || this.life.closed) return;
    this.asked = true;
    // One turn later, so that a burst of arrivals or completions is seen as one.
    setImmediate(() => {
      this.asked = false;
      this.setup.recorder.timed(() => {
        this.pump();
      });
    });
  }

  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent {
    if (task.name === 'compute') this.composition.computes(square);
    return issueFor(square, after, (waitsFor) => this.life.submit(square, task, waitsFor));
  }

  issueMoves(
    square: IssuedSquare,
    name: TaskName,
    routes: readonly (readonly Move[])[],
    after: readonly TaskEvent[],
  ): TaskEvent[] {
    this.composition.moves(square, name, routes.length);
    const ends: TaskEvent[] = [];
    for (const route of routes) {
      let last: TaskEvent | undefined;
      for (const move of route) last = this.issue(square, { name, ...move }, last ? [last] : after);
      if (last) ends.push(last);
    }
    return ends;
  }

  /** The square leaves: whether nothing of its batch is under way any more. @throws ScheduleError */
  leave(square: IssuedSquare): boolean {
    this.composition.retires(square);
    this.credits++;
    return this.rows.leave(square.batch);
  }

  private pump(): void {
    if (this.pumping || !this.life.wanted) return;
    this.pumping = true;
    this.life.guarded(() => {
      this.setup.recorder.rows(this.rows.size);
      while (this.credits > 0 && this.life.wanted) {
        const square = this.held ?? this.events.next();
        if (!square || !this.life.wanted) break;
        // The batch's first layer makes room for all of them.
        const fits = square.layer > this.firstLayer || this.rows.makeRoom(square.batch);
        this.held = fits ? undefined : square;
        if (!fits) break;
        this.enter(square);
      }
    });
    this.pumping = false;
    this.events.paused();
  }

  private enter(square: Square): void {
    this.path.accept(square);
    this.credits--;
    if (square.layer === this.lastLayer) this.rows.wrote(square.batch);
    this.rows.enter(square.batch);
    this.events.entering(square);
    const issued = issuedSquare(square);
    this.composition.enters(issued);
    this.life.emit(issued);
  }
}
