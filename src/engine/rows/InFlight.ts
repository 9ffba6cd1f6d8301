import { Semaphore } from '../../collections/Semaphore.js';

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

  /** Nobody is let in before `letGo`. */
  hold(): void {
    this.room.hold();
  }

  letGo(): void {
    this.room.letGo();
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

/** Values that are looked at: what callers hand over may lead to anything. */
const MOST_VALUES = 10_000;
const VALUE_BYTES = 16;

/**
 * About how many bytes a value takes that a row carries: its strings, keys and buffers, and so much a value. Never
 * throws.
 */
export function carriedBytes(carried: unknown): number {
  const seen = new Set<unknown>();
  const left = [carried];
  let bytes = 0;
  for (let looked = 0; left.length > 0 && looked < MOST_VALUES; looked++) {
    const value = left.pop();
    bytes += VALUE_BYTES;
    if (typeof value === 'string') bytes += 2 * value.length;
    else if (ArrayBuffer.isView(value)) bytes += value.byteLength;
    else if (typeof value === 'object' && value !== null && !seen.has(value)) {
      seen.add(value);
      bytes += 2 * addMembers(value, left, MOST_VALUES - looked);
    }
  }
  return bytes;
}

/** @returns the length of the keys */
function addMembers(value: object, to: unknown[], most: number): number {
  let length = 0;
  try {
    for (const [key, member] of Object.entries(value).slice(0, most)) {
      if (!Array.isArray(value)) length += key.length;
      to.push(member);
    }
  } catch {
    // A getter that throws: what it would have given is not held.
  }
  return length;
}
