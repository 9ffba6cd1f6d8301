import { Semaphore } from '../../collections/Semaphore.js';
import { carriedBytes } from '../../rows/carriedBytes.js';

/** Results that may wait for an earlier row, on top of the rows that are being generated. */
export const ORDER_WINDOW = 1024;

export interface InFlightBounds {
  /** Rows that may be in flight, whatever they carry. */
  readonly rows: number;
  /** So many may be in any case: those that are generated at once. Default: all. */
  readonly leastRows?: number;
  /** What rows beyond these may carry. Default: anything. */
  readonly carriedBytes?: number;
}

/**
 * Counts what has been taken in and not yet handed on, and what that carries, and makes whoever takes in wait at the
 * limit.
 */
export class InFlight {
  /** Of what rows carry, which their results carry on. */
  private readonly sizes = new WeakMap<object, number>();
  private readonly room: Semaphore;

  constructor({ rows, leastRows = rows, carriedBytes: bytes = Infinity }: InFlightBounds) {
    this.room = new Semaphore({ count: rows, least: leastRows, weight: bytes });
  }

  /** Waits until there is room, then takes it. One caller at a time. @param carried what a row has beside its prompt */
  async enter(carried?: unknown): Promise<void> {
    await this.room.room();
    if (isHeld(carried) && !this.sizes.has(carried)) this.sizes.set(carried, carriedBytes(carried));
    this.room.take(this.sizeOf(carried));
  }

  /** @param carried what `enter` got */
  leave(carried?: unknown): void {
    this.room.release(this.sizeOf(carried));
  }

  /** Lets a waiting caller go on whatever the count: it is about to be stopped. */
  wake(): void {
    this.room.open();
  }

  private sizeOf(carried: unknown): number {
    return isHeld(carried) ? (this.sizes.get(carried) ?? 0) : 0;
  }
}

function isHeld(carried: unknown): carried is object {
  return typeof carried === 'object' && carried !== null;
}
