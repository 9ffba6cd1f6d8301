import { Semaphore } from '../../collections/Semaphore.js';
import type { RunRow } from './RunRow.js';

/**
 * The bytes that a token takes in a row that waits, and those that a row takes beside its tokens: its parameters, its
 * place in the tree of prompts and in the order of rows.
 */
const TOKEN_BYTES = 8;
const ROW_BYTES = 2048;

/**
 * Rows that wait for a place, pulled from their source a few ahead and no further. The source decides how far it can be
 * pulled: one that waits stops the feed, and so the run's admission.
 */
export class RowFeed<Result> {
  /** Called after a row has arrived, or the source has ended or failed: to be replaced. */
  onRow(_row?: RunRow<Result>): void {
    return;
  }
  /** The source has ended, and no row waits any more. */
  get ended(): boolean {
    return this.allKnown && this.waiting.length === 0;
  }
  /** Rows that are still to come, as far as that is known: those that wait, once the source has ended. */
  get remaining(): number {
    return this.allKnown ? this.waiting.length : Infinity;
  }
  /** Nothing more is pulled until a row is taken. */
  get full(): boolean {
    return this.room.full;
  }
  /** The error that the source threw, whatever that is. The rows before it are still to be taken. */
  failure: { readonly error: unknown } | undefined;

  private readonly waiting: RunRow<Result>[] = [];
  private readonly room: Semaphore;
  private sourceEnded = false;
  /** Lists of rows that are being made. */
  private coming = 0;
  private started = false;
  private closed = false;

  /**
   * @param ahead rows that may wait
   * @param aheadBytes what they may take; one row may wait whatever it takes
   */
  constructor(
    private readonly source: AsyncIterator<RunRow<Result>>,
    readonly ahead: number,
    aheadBytes = Infinity,
  ) {
    this.room = new Semaphore({ count: ahead, least: 1, weight: aheadBytes });
  }

  /** Begins to pull. */
  start(): void {
    if (this.started) return;
    this.started = true;
    void this.pull();
  }

  /** The rows that wait, in order of arrival. */
  get rows(): readonly RunRow<Result>[] {
    return this.waiting;
  }

  /** Rows that go on after one that was taken: they wait as well, however many do. */
  add(rows: readonly RunRow<Result>[]): void {
    for (const row of rows) {
      this.waiting.push(row);
      this.room.take(bytesOf(row));
    }
  }

  /** The same of rows that are being made. What that rejects with is as if the source had thrown it. */
  addLater(made: Promise<readonly RunRow<Result>[]>): void {
    this.coming++;
    made.then(
      (rows) => {
        this.coming--;
        if (this.closed) return;
        this.add(rows);
        for (const row of rows) this.onRow(row);
      },
      (error: unknown) => {
        this.coming--;
        if (this.closed) return;
        this.sourceEnded = true;
        this.failure ??= { error };
        this.onRow();
      },
    );
  }

  /** Takes one of them. */
  take(row: RunRow<Result>): void {
    this.waiting.splice(this.waiting.indexOf(row), 1);
    row.begin?.();
    this.room.release(bytesOf(row));
  }

  /**
   * Stops pulling and tells the source so, also while a row is on its way: whoever waits for it need not wait any
   * longer.
   */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.waiting.length = 0;
    this.room.open();
    if (!this.sourceEnded) this.source.return?.().catch(() => undefined);
  }

  private get allKnown(): boolean {
    return this.sourceEnded && this.coming === 0;
  }

  private async pull(): Promise<void> {
    while (!this.sourceEnded) {
      // At once where there is room: who subscribes has what it gives pulled from then on.
      if (this.room.full) await this.room.room();
      if (this.closed) return;
      let row: RunRow<Result> | undefined;
      try {
        const step = await this.source.next();
        if (step.done === true) this.sourceEnded = true;
        else row = step.value;
      } catch (error) {
        this.sourceEnded = true;
        this.failure = { error };
      }
      if (this.closed) return;
      if (row) this.add([row]);
      this.onRow(row);
    }
  }
}

function bytesOf({ sequence }: RunRow<unknown>): number {
  return sequence.tokens.length * TOKEN_BYTES + ROW_BYTES;
}
