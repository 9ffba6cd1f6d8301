/** The free pages of one tier. Pages that were given back are taken again first, so that memory that was never needed is never touched. */
export class PageList {
  private readonly free: number[] = [];
  private untouched = 0;
  private most = 0;

  /** @param reclaim asked when none is left: gives one back that can be spared, if there is any */
  constructor(
    readonly capacity: number,
    private readonly reclaim: () => boolean = () => false,
  ) {}

  get used(): number {
    return this.untouched - this.free.length;
  }

  /** The most pages that were in use at once. */
  get peakUsed(): number {
    return this.most;
  }

  /** @throws RangeError when none is left; look at `used` first */
  take(): number {
    if (this.used >= this.capacity && !this.reclaim()) throw new RangeError(`all ${this.capacity} pages are in use`);
    const page = this.free.pop() ?? this.untouched++;
    this.most = Math.max(this.most, this.used);
    return page;
  }

  give(page: number): void {
    this.free.push(page);
  }
}
