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
  private count = 0;
  private bytes = 0;
  /** Of what rows carry, which their results carry on. */
  private readonly sizes = new WeakMap<object, number>();
  private waiting: (() => void) | undefined;

  constructor(private readonly bounds: InFlightBounds) {}

  /** Waits until there is room, then takes it. One caller at a time. @param carried what a row has beside its prompt */
  async enter(carried?: unknown): Promise<void> {
    if (this.full) await new Promise<void>((resolve) => (this.waiting = resolve));
    this.count++;
    if (!isHeld(carried)) return;
    const size = this.sizes.get(carried) ?? carriedBytes(carried);
    this.sizes.set(carried, size);
    this.bytes += size;
  }

  /** @param carried what `enter` got */
  leave(carried?: unknown): void {
    this.count--;
    if (isHeld(carried)) this.bytes -= this.sizes.get(carried) ?? 0;
    if (!this.full) this.wake();
  }

  /** Lets a waiting caller go on whatever the count: it is about to be stopped. */
  wake(): void {
    const resolve = this.waiting;
    this.waiting = undefined;
    resolve?.();
  }

  private get full(): boolean {
    const { rows, leastRows = rows, carriedBytes: most = Infinity } = this.bounds;
    return this.count >= rows || (this.count >= leastRows && this.bytes >= most);
  }
}

function isHeld(carried: unknown): carried is object {
  return typeof carried === 'object' && carried !== null;
}
