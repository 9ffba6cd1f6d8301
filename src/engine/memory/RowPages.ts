import type { PageList } from './PageList.js';
import { plus, total, type PageTier } from './pageCounts.js';
import { heldPages, type PageCounts, type RowLengths } from './rowPlacement.js';

/** The page table of a row, as devices read it. It grows while the row does. */
export interface PageTable {
  /** In order of position: a page in memory, from 0; behind those, a page of the GPU (so many pages as memory has, and its number there); or -1 - d for page d of the disk. */
  readonly entries: readonly number[];
  /** The page in memory where tokens stand until their page of the disk is complete; -1 for a row that has none there. */
  readonly tail: number;
}

/** The pages of each tier, of which rows take and to which they give back. */
export type PageLists = Readonly<Record<PageTier, PageList>>;

/** The KV pages that one row holds. */
export class RowPages implements PageTable {
  readonly entries: number[] = [];
  readonly tail: number;
  private issued = 0;
  private released = false;

  /** Takes what the prompt needs. */
  constructor(
    readonly lengths: RowLengths,
    readonly placement: PageCounts,
    private readonly pageTokens: number,
    private readonly lists: PageLists,
    private readonly onRelease: () => void,
  ) {
    this.tail = placement.disk > 0 ? lists.memory.take() : -1;
    this.grow(Math.min(lengths.promptTokens, lengths.positions));
  }

  /** The first position that no square has been issued for. */
  get next(): number {
    return this.issued;
  }

  /** Positions that the pages taken so far have room for. */
  get reach(): number {
    return this.entries.length * this.pageTokens;
  }

  /** Pages that the row has yet to take before positions up to `end` can be computed. */
  lacks(end: number): PageCounts {
    const before = heldPages(this.placement, this.entries.length);
    const after = heldPages(this.placement, Math.max(this.entries.length, this.begun(end)));
    return plus(after, before, -1);
  }

  /** A square for positions up to `end` is issued: takes what they need. @throws RangeError where a tier has not enough left */
  advance(end: number): void {
    this.grow(end);
    this.issued = end;
  }

  private grow(end: number): void {
    const { gpu, memory, disk } = this.placement;
    for (let index = this.entries.length; index < this.begun(end); index++) {
      if (index < gpu) this.entries.push(this.firstOfGpu + this.lists.gpu.take());
      else if (disk === 0 || index < gpu + memory - 1) this.entries.push(this.lists.memory.take());
      else if (index < gpu + memory - 1 + disk) this.entries.push(-1 - this.lists.disk.take());
      else this.entries.push(this.tail);
    }
  }

  /** Gives everything back; once. */
  release(): void {
    if (this.released) return;
    this.released = true;
    for (const entry of this.entries.toReversed()) {
      if (entry < 0) this.lists.disk.give(-1 - entry);
      else if (entry >= this.firstOfGpu) this.lists.gpu.give(entry - this.firstOfGpu);
      else if (entry !== this.tail) this.lists.memory.give(entry);
    }
    if (this.tail >= 0) this.lists.memory.give(this.tail);
    this.onRelease();
  }

  /** Pages of the GPU are numbered behind those of memory. */
  private get firstOfGpu(): number {
    return this.lists.memory.capacity;
  }

  private begun(end: number): number {
    return Math.min(total(this.placement), Math.max(1, Math.ceil(end / this.pageTokens)));
  }
}
