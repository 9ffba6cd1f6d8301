/**
 * The clock of simulated devices, and what is to happen at which time of it. Devices that share one are simulated
 * together.
 */
export class VirtualTime {
  private readonly due: { readonly at: number; readonly happen: () => void }[] = [];
  private running = false;
  private clock = 0;

  /** @param burst events that happen in one turn of the event loop. Default 1 */
  constructor(private readonly burst = 1) {}

  /** Virtual seconds: the time of the last thing that happened. */
  get now(): number {
    return this.clock;
  }

  /** Nothing is to happen any more, as far as is known. */
  get idle(): boolean {
    return !this.running;
  }

  /** At a time, or as soon as everything before it has happened. Never at once. */
  at(time: number, happen: () => void): void {
    this.due.push({ at: time, happen });
    if (this.running) return;
    this.running = true;
    setImmediate(() => {
      this.advance();
    });
  }

  /**
   * Makes what is due first happen, one burst a turn of the event loop, so that whoever reacts to it can ask for more
   * in between.
   */
  private advance(): void {
    let count = this.burst;
    while (count-- > 0 && this.due.length > 0) {
      let first = 0;
      this.due.forEach(({ at }, i) => {
        if (at < (this.due[first]?.at ?? 0)) first = i;
      });
      const [next] = this.due.splice(first, 1);
      if (!next) break;
      this.clock = Math.max(this.clock, next.at);
      next.happen();
    }
    this.running = this.due.length > 0;
    if (this.running) {
      setImmediate(() => {
        this.advance();
      });
    }
  }
}
