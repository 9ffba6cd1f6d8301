import type { Move, Movement } from '../memory/movement.js';
import type { PageTable } from '../grid/PageTable.js';
import type { Grid, RowId } from '../grid/Square.js';
import type { Device } from '../grid/Device.js';
import type { IssuedSquare } from './IssuedSquare.js';
import type { Task, TaskEvent, TaskName } from '../grid/Task.js';

/** A task as a stage states it; which square it is for is added by the run. */
export type StageTask = Pick<Task, 'name' | 'queue'> & Partial<Pick<Task, 'part' | 'bytes' | 'from' | 'to' | 'hops'>>;

/** A run as far as the stage operators need to know it. */
export interface StageContext {
  readonly grid: Grid;
  readonly device: Device;
  readonly movement: Movement;
  readonly lastStores: LastStores;
  /** The KV pages of a row that is under way. */
  pagesOf(row: RowId): PageTable | undefined;
  /** Submits one task for the square and notes its event there. */
  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent;
  /** Submits the moves of some routes; returns the last event of each. */
  issueMoves(
    square: IssuedSquare,
    name: TaskName,
    routes: readonly (readonly Move[])[],
    after: readonly TaskEvent[],
  ): TaskEvent[];
}

type StoreName = 'store_activation' | 'store_cache';

/**
 * The events that a run's stores issued last: of hidden states for each slot, of keys and values for each slot and
 * layer. A load of the same data waits for them.
 */
export class LastStores {
  private readonly last = new Map<string, readonly TaskEvent[]>();
  /** The stores of keys and values that have not completed, by layer. */
  private readonly pending = new Map<number, readonly TaskEvent[]>();

  note(name: StoreName, square: IssuedSquare, events: readonly TaskEvent[]): void {
    if (events.length === 0) return;
    this.last.set(keyOf(name, square), events);
    if (name === 'store_cache') this.pending.set(square.layer, [...this.cachesOf(square.layer), ...events]);
  }

  /** Finds stores of keys and values of a layer, whosever they are, that may still be under way. */
  cachesOf(layer: number): readonly TaskEvent[] {
    return (this.pending.get(layer) ?? []).filter(({ timing }) => timing === undefined);
  }

  find(name: StoreName, square: IssuedSquare): readonly TaskEvent[] {
    return this.last.size === 0 ? [] : (this.last.get(keyOf(name, square)) ?? []);
  }
}

function keyOf(name: StoreName, { batch: { slot }, layer }: IssuedSquare): string {
  return name === 'store_cache' ? `${name} ${slot} ${layer}` : `${name} ${slot}`;
}
