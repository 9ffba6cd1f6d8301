import { Subject, type Observable } from 'rxjs';

/** Pages that one row holds; `release` gives them back once. */
export interface PageReservation {
  readonly pages: readonly number[];
  release(): void;
}

/**
 * The KV pages of an engine. A row's pages are reserved all at once, for its full length, before it is admitted: rows never wait for each
 * other in mid-flight. Freed pages are taken again first, so that memory that was never needed is never touched.
 */
export class PagePool {
  private readonly free: number[] = [];
  private untouched = 0;
  private readonly releases = new Subject<void>();
  private peak = 0;

  constructor(
    readonly capacity: number,
    readonly pageTokens: number,
  ) {}

  /** Emits after pages were released: somebody who could not reserve may try again. */
  get released$(): Observable<void> {
    return this.releases;
  }

  get used(): number {
    return this.untouched - this.free.length;
  }

  /** The most pages that were in use at once. */
  get peakUsed(): number {
    return this.peak;
  }

  pagesFor(tokens: number): number {
    return Math.ceil(tokens / this.pageTokens);
  }

  canReserve(pages: number): boolean {
    return pages <= this.capacity - this.used;
  }

  /** @throws RangeError when they are not there; ask `canReserve` first. */
  reserve(count: number): PageReservation {
    if (!this.canReserve(count)) throw new RangeError(`${count} pages were asked for, ${this.capacity - this.used} of ${this.capacity} are free`);
    const pages = Array.from({ length: count }, () => this.free.pop() ?? this.untouched++);
    this.peak = Math.max(this.peak, this.used);
    let held = true;
    return {
      pages,
      release: () => {
        if (!held) return;
        held = false;
        this.free.push(...pages.toReversed());
        this.releases.next();
      },
    };
  }
}
