/** A source that gives nothing for so long has nothing at hand. */
const PAUSE_MILLISECONDS = 50;
/** A block begins after so long, however many rows are still coming. */
const MOST_MILLISECONDS = 1000;

/**
 * When a block of rows begins into which none comes later (`steady: 'blocks'`): once it is full, or its source has
 * ended, pauses, or takes its time. One that began with the first row would leave the others for a block of their own,
 * and take all weights through memory twice as often.
 */
export class BlockStart {
  private rows = 0;
  private firstSeen = 0;
  private lastSeen = 0;
  private timer: NodeJS.Timeout | undefined;

  /** @param wake called when the block may begin without anything having arrived */
  constructor(private readonly wake: () => void) {}

  /**
   * Tells whether the block should not begin yet. @param rows that wait, one at least
   * @param complete no more of them can come, or have a place
   */
  waits(rows: number, complete: boolean): boolean {
    const now = performance.now();
    if (this.rows === 0) this.firstSeen = now;
    if (rows !== this.rows) this.lastSeen = now;
    this.rows = rows;
    const left = Math.min(this.lastSeen + PAUSE_MILLISECONDS, this.firstSeen + MOST_MILLISECONDS) - now;
    if (complete || left <= 0) {
      this.close();
      return false;
    }
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.wake();
    }, Math.ceil(left));
    return true;
  }

  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.rows = 0;
  }
}
