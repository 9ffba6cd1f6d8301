import { ScheduleError } from '../../errors/engineErrors.js';
import { whereIs, type RequiredMoves } from '../schedules/PathRecord.js';
import type { IssuedSquare } from './IssuedSquare.js';
import { kindOf, LOADS, STORES, type TaskName } from '../grid/Task.js';

/**
 * Judges a composition of stages while it issues: is everything that the placement wants moved for a square moved, the
 * loads before compute is issued and the stores after, does no stage lose a square or pass those of a slot in another
 * order, and does a square leave the window only when all of it is done? What tasks wait for is not seen here;
 * `validatePath` judges that from a trace.
 */
export class CompositionChecker {
  /** The layer and pass whose weights were seen to last: the squares that share it share their load. */
  private weights = { pass: -1, layer: -1 };
  private readonly toCompute = new SlotOrder();
  private readonly toRetire = new SlotOrder();

  constructor(private readonly required: RequiredMoves) {}

  /** The square enters the window. */
  enters(square: IssuedSquare): void {
    this.toCompute.enter(square);
    this.toRetire.enter(square);
  }

  /** A stage sees to its moves for the square. @throws ScheduleError */
  moves(square: IssuedSquare, name: TaskName, routes: number): void {
    const { stages, compute } = square.events;
    stages.add(name);
    if (name === 'load_weight') this.weights = { pass: square.batch.pass, layer: square.layer };
    else if (routes > 0 && compute === undefined && kindOf(name).does === 'store') {
      throw new ScheduleError(
        'lifetime',
        `${whereIs(square)}: ${name} is issued before compute, when there is nothing to store yet`,
      );
    }
  }

  /** A part of the square's compute is issued. @throws ScheduleError */
  computes(square: IssuedSquare): void {
    const { stages } = square.events;
    if (stages.has('compute')) return;
    stages.add('compute');
    const lost = this.toCompute.missedBy(square);
    if (lost)
      throw new ScheduleError(
        'left-neighbour',
        `${whereIs(square)}: compute is issued, but not for ${whereIs(lost)} before it: a stage has lost that square, or does not pass squares in order`,
      );
    for (const name of LOADS) {
      if (
        stages.has(name) ||
        (name === 'load_weight' && this.weights.pass === square.batch.pass && this.weights.layer === square.layer)
      )
        continue;
      if (this.required(name, square).length === 0) continue;
      throw new ScheduleError(
        'inputs-on-device',
        `${whereIs(square)}: compute is issued without ${name} before it; the placement needs that stage`,
      );
    }
  }

  /** The square leaves the window. @throws ScheduleError */
  retires(square: IssuedSquare): void {
    const { stages, all } = square.events;
    const lost = this.toRetire.missedBy(square);
    if (lost)
      throw new ScheduleError(
        'complete',
        `${whereIs(square)}: leaves the window before ${whereIs(lost)}: a stage has lost that square, or does not pass squares in order`,
      );
    if (!stages.has('compute')) throw new ScheduleError('complete', `${whereIs(square)}: no stage has computed it`);
    for (const name of STORES) {
      if (stages.has(name) || this.required(name, square).length === 0) continue;
      throw new ScheduleError(
        'lifetime',
        `${whereIs(square)}: what it computed was never stored; the placement needs ${name}`,
      );
    }
    for (const { timing } of all) {
      if (!timing)
        throw new ScheduleError(
          'lifetime',
          `${whereIs(square)}: it leaves the window while its tasks are under way; synchronize has to come last`,
        );
    }
  }
}

/** The squares of each slot in the order in which they have entered the window, as far as they have not come by. */
class SlotOrder {
  private readonly coming = new Map<number, IssuedSquare[]>();

  enter(square: IssuedSquare): void {
    const { slot } = square.batch;
    const squares = this.coming.get(slot);
    if (squares) squares.push(square);
    else this.coming.set(slot, [square]);
  }

  /**
   * A square comes by: the one that should have come in its place, if there is one. (Stages may pass a square on as an
   * object of their own.)
   */
  missedBy({ batch: { slot }, events }: IssuedSquare): IssuedSquare | undefined {
    const next = this.coming.get(slot)?.shift();
    return next?.events === events ? undefined : next;
  }
}
