/**
 * The free pages of one tier. Pages that were given back are taken again first, so that memory that was never needed is
 * never touched.
 */
export class PageList {
  private readonly free: number[] = [];
  private untouched = 0;
  private most = 0;
  private limit: number;

  /**
   * @param reclaim asked when none is left: gives one back that can be spared, if there is any
   * @param reuse asked before one is touched that never was: gives one back that is not worth that, if there is any
   */
  constructor(
    readonly capacity: number,
    private readonly reclaim: () => boolean = () => false,
    private readonly reuse: () => void = () => undefined,
  ) {
    this.limit = capacity;
  }

  get used(): number {
    return this.untouched - this.free.length;
  }

  /** The most pages that were in use at once. */
  get peakUsed(): number {
    return this.most;
  }

  /** Spares pages that can be from so many on: somebody who has to hold the same ones has no more. */
  limitTo(pages: number): void {
    this.limit = Math.min(this.capacity, pages);
  }

  /** @throws RangeError when none is left; look at `used` first */
  take(): number {
    while (this.used >= this.limit && this.reclaim());
    if (this.used >= this.capacity) throw new RangeError(`all ${this.capacity} pages are in use`);
    if (this.free.length === 0) this.reuse();
    const page = this.free.pop() ?? this.untouched++;
    this.most = Math.max(this.most, this.used);
    return page;
  }

  give(page: number): void {
    this.free.push(page);
  }
}
