export interface SemaphoreBounds {
  /** So many may be there at once. */
  readonly count: number;
  /** So many may be in any case, whatever they weigh. Default: all. */
  readonly least?: number;
  /** The weight that what is there may have before it is full for those beyond. Default: anything. */
  readonly weight?: number;
}

/** Counts what is there, and what that weighs, and makes whoever brings more wait at the limit. */
export class Semaphore {
  private count = 0;
  private weight = 0;
  private opened = false;
  private waiting: (() => void) | undefined;

  constructor(private readonly bounds: SemaphoreBounds) {}

  /** Waits until there is room, or nobody need wait any more. One caller at a time. */
  async room(): Promise<void> {
    if (this.full) await new Promise<void>((resolve) => (this.waiting = resolve));
  }

  /** Takes room, whether or not there is some. */
  take(weight = 0): void {
    this.count++;
    this.weight += weight;
  }

  release(weight = 0): void {
    this.count--;
    this.weight -= weight;
    if (!this.full) this.wake();
  }

  /** From now on nobody waits: what they wait for is about to end. */
  open(): void {
    this.opened = true;
    this.wake();
  }

  get full(): boolean {
    const { count, least = count, weight = Infinity } = this.bounds;
    return !this.opened && (this.count >= count || (this.count >= least && this.weight >= weight));
  }

  private wake(): void {
    const resolve = this.waiting;
    this.waiting = undefined;
    resolve?.();
  }
}
