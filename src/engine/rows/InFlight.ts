/** Counts what has been taken in and not yet handed on, and makes whoever takes in wait at the limit. */
export class InFlight {
  private count = 0;
  private waiting: (() => void) | undefined;

  constructor(private readonly limit: number) {}

  /** Waits until there is room, then takes it. One caller at a time. */
  async enter(): Promise<void> {
    if (this.count >= this.limit) await new Promise<void>((resolve) => (this.waiting = resolve));
    this.count++;
  }

  leave(): void {
    this.count--;
    this.wake();
  }

  /** Lets a waiting caller go on whatever the count: it is about to be stopped. */
  wake(): void {
    const resolve = this.waiting;
    this.waiting = undefined;
    resolve?.();
  }
}
