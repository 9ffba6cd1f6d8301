import { boundHeapGrowth } from '../../rows/heapGrowth.js';
import type { LedgerAccount } from '../../collections/ByteLedger.js';

/** Results that may wait for an earlier row, on top of the rows that are being generated. */
export const ORDER_WINDOW = 1024;

/**
 * Bytes that a row takes beside those that it brings: parameters, places in the order of rows and in the tree of
 * prompts.
 */
const ROW_BYTES = 2048;

/** A row, and all rows together, of which the heap has more garbage than a cap on the process has room for. */
const LARGE_BYTES = 2 ** 16;
const MUCH_BYTES = 8 * 2 ** 20;

/** The memory that a row of input holds as long as one of its results is to come, or waits to be taken. */
export interface RowHold {
  /** Bytes of the values that are carried into results. */
  readonly carried: number;
  /** Bytes of all that the row holds. */
  bytes: number;
  results: number;
  taken: boolean;
}

/**
 * Counts what has been taken in and not yet handed on, and what that brings and makes, and makes whoever takes in wait
 * at the limit. One row may be in flight whatever it takes.
 */
export class InFlight {
  private count = 0;
  private held = false;
  private opened = false;
  /** The memory that each result holds which is to come, or waits to be taken: by its place in the order of results. */
  private readonly bySequence = new Map<number, { readonly row: RowHold; bytes: number }>();

  constructor(
    /** So many may be in flight, whatever they take. */
    private readonly rows: number,
    /** The account of what the rows in flight take. */
    private readonly account: LedgerAccount,
  ) {}

  /** Most bytes that are looked at of what a row brings: more is more than there is room for. */
  get mostBytes(): number {
    return this.account.most;
  }

  /**
   * Waits until there is room for a row that brings so much, then takes it. One caller at a time.
   * @param bytes of what it is made of @param carried of what goes with it
   */
  async enter(bytes = 0, carried = 0): Promise<RowHold> {
    const row = { carried, bytes: this.rowBytes(bytes + carried), results: 0, taken: true };
    await this.room(row.bytes);
    this.account.take(row.bytes);
    if (row.bytes > LARGE_BYTES || this.account.held > MUCH_BYTES) boundHeapGrowth();
    return row;
  }

  /** The same for one more result of a row that has entered, for which so much is set aside. */
  async enterAgain(bytes: number): Promise<void> {
    await this.room(bytes);
  }

  /** From now on the row holds, beside what it carries, no more than this. */
  settle(row: RowHold, bytes: number): void {
    const settled = this.rowBytes(bytes + row.carried);
    this.account.take(settled - row.bytes);
    row.bytes = settled;
  }

  /** A result of the row will come at that place. @param bytes that are set aside for it */
  expect(sequence: number, row: RowHold, bytes = 0): void {
    row.results++;
    this.account.take(bytes + (row.taken ? 0 : row.bytes));
    row.taken = true;
    this.bySequence.set(sequence, { row, bytes });
  }

  /** The result of that place is there, and takes so much. */
  answered(sequence: number, bytes: number): void {
    const result = this.bySequence.get(sequence);
    if (!result) return;
    this.account.take(bytes - result.bytes);
    result.bytes = bytes;
  }

  /** The result of that place has been handed on. */
  leave(sequence: number): void {
    const result = this.bySequence.get(sequence);
    if (!result) return;
    this.bySequence.delete(sequence);
    this.count--;
    const { row, bytes } = result;
    row.results--;
    row.taken = row.results > 0;
    this.account.give(bytes + (row.taken ? 0 : row.bytes));
  }

  /** Nobody is let in before `letGo`. */
  hold(): void {
    this.held = true;
  }

  letGo(): void {
    this.held = false;
    this.account.wake();
  }

  /** Lets a waiting caller go on whatever the count: it is about to be stopped. What is held is given back. */
  close(): void {
    this.opened = true;
    this.bySequence.clear();
    this.account.close();
    this.account.wake();
  }

  /** No more than there is room for: it is let in alone. */
  private rowBytes(bytes: number): number {
    return Math.min(bytes + ROW_BYTES, this.account.most);
  }

  private async room(bytes: number): Promise<void> {
    while (this.isFull(bytes)) await this.account.changed();
    this.count++;
  }

  private isFull(bytes: number): boolean {
    return !this.opened && (this.held || this.count >= this.rows || !this.account.fits(bytes));
  }
}
