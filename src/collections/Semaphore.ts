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
  private waiting: { readonly resolve: () => void; readonly weight: number } | undefined;

  constructor(private readonly bounds: SemaphoreBounds) {}

  /**
   * Waits until there is room for so much, or nobody need wait any more. One caller at a time.
   * @param weight 0: until it is not full
   */
  async room(weight = 0): Promise<void> {
    if (this.lacks(weight)) await new Promise<void>((resolve) => (this.waiting = { resolve, weight }));
  }

  /** Takes room, whether or not there is some. */
  take(weight = 0): void {
    this.count++;
    this.weight += weight;
  }

  release(weight = 0): void {
    this.count--;
    this.weight -= weight;
    if (this.waiting && !this.lacks(this.waiting.weight)) this.wake();
  }

  /** From now on nobody waits: what they wait for is about to end. */
  open(): void {
    this.opened = true;
    this.wake();
  }

  get full(): boolean {
    return this.lacks(0);
  }

  private lacks(more: number): boolean {
    const { count, least = count, weight = Infinity } = this.bounds;
    const heavy = this.weight >= weight || this.weight + more > weight;
    return !this.opened && (this.count >= count || (this.count >= least && heavy));
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = undefined;
    waiting?.resolve();
  }
}
