import type { PageCopy, PageTable } from '../grid/PageTable.js';
import type { PageList } from './PageList.js';
import { plus, total, type PageTier, type PageCounts } from '../grid/pageCounts.js';
import type { SharedStretch } from '../schedules/PathChecker.js';
import type { RowId } from '../grid/Square.js';
import type { PagePlacement, RowLengths } from './PagePlacement.js';
import { stretchesOf, type PageWriter, type SharedPage } from './SharedPage.js';

/** Who counts the holders of pages that several rows have in their tables. */
export interface PrefixPages {
  /** @param page taken for it, where it had none: the row computes what belongs there */
  hold(node: SharedPage, page?: number, writer?: PageWriter): void;
  /** The row has ended. */
  release(node: SharedPage): void;
  /** A row will copy the first tokens of the page. */
  read(node: SharedPage): void;
  hasRead(node: SharedPage): void;
}

/** What of a row's prompt rows have in common: its pages, and what of them is there. */
export interface RowPrefix {
  readonly tree: PrefixPages;
  /** Of the prompt, as far as it may be shared. */
  readonly nodes: readonly SharedPage[];
  readonly match: {
    /** Whole pages, from the first. */
    readonly pages: number;
    /** The page whose first tokens the row copies. */
    readonly source: SharedPage | undefined;
    /** Tokens of both. */
    readonly tokens: number;
  };
}

/** The pages of each tier, of which rows take and to which they give back. */
export type PageLists = Readonly<Record<PageTier, PageList>>;

/** The KV pages that one row holds. */
export class RowPages implements PageTable {
  readonly entries: number[] = [];
  readonly tail: number;
  readonly attendedPages: number | undefined;
  readonly copy: PageCopy | undefined;
  /** Tokens of the prompt that others have computed, from the first, and who has. */
  readonly sharedTokens: number;
  readonly shared: readonly SharedStretch[];
  /** Prompts of rows of a higher one are computed before those of others. */
  priority = 0;
  /** It keeps what it has, and does not grow: its place is another row's for a while. */
  paused = false;
  private issued: number;
  private released = false;
  private readonly writer: { readonly row: RowId; written: number };
  /** The first pages, those of the prompt that are in the tree. */
  private readonly inTree: SharedPage[] = [];
  /** How many of them others have, too, as was last known. */
  private others = 0;
  private own: { readonly behind: number; readonly placement: PagePlacement };
  /** The page that is copied, until the batch that does it is through. */
  private source: SharedPage | undefined;

  /**
   * Takes what the prompt needs, but for what of it is there.
   * @param row its number in the run
   */
  constructor(
    row: RowId,
    readonly lengths: RowLengths,
    readonly placement: PagePlacement,
    private readonly pageTokens: number,
    private readonly lists: PageLists,
    private readonly onRelease: () => void,
    private readonly prefix?: RowPrefix,
  ) {
    const { pages = 0, source, tokens = 0 } = prefix?.match ?? {};
    this.writer = { row, written: 0 };
    this.own = { behind: 0, placement };
    this.issued = this.sharedTokens = tokens;
    const shared = prefix?.nodes.slice(0, pages) ?? [];
    this.shared = stretchesOf(shared, source, tokens);
    if (prefix && source?.page !== undefined) {
      this.source = source;
      this.copy = { from: source.page, position: tokens };
      prefix.tree.read(source);
    }
    for (const node of shared) {
      if (node.page === undefined) throw new RangeError('a shared page is not there');
      this.entries.push(node.page);
      this.inTree.push(node);
      prefix?.tree.hold(node);
    }
    this.attendedPages = placement.attendedPages;
    this.tail = placement.pages.disk > 0 ? lists.memory.take() : -1;
    this.grow(Math.min(lengths.promptTokens, lengths.positions));
  }

  /** The first position that no square has been issued for. */
  get next(): number {
    return this.issued;
  }

  /** Pages, from the first, that other rows have in their tables, too: whoever has one has those before it. */
  get sharedPages(): number {
    const has = (page: number): boolean => (this.inTree[page]?.holders ?? 0) > 1;
    while (has(this.others)) this.others++;
    while (this.others > 0 && !has(this.others - 1)) this.others--;
    return this.others;
  }

  /** Where its pages are that no other row has. */
  get ownPlacement(): PagePlacement {
    const { sharedPages, placement, own } = this;
    if (own.behind === sharedPages) return own.placement;
    this.own = { behind: sharedPages, placement: placement.without(sharedPages) };
    return this.own.placement;
  }

  /** Pages, from the first, that others may have in their tables, too, now or later. */
  get shareablePages(): number {
    return this.inTree.length;
  }

  /** Positions that the pages taken so far have room for. */
  get reach(): number {
    return this.entries.length * this.pageTokens;
  }

  /** Pages that the row has yet to take before positions up to `end` can be computed. */
  lacks(end: number): PageCounts {
    const before = this.placement.held(this.entries.length);
    const after = this.placement.held(Math.max(this.entries.length, this.begun(end)));
    return plus(after, before, -1);
  }

  /**
   * A square for positions up to `end` is issued: takes what they need. @throws RangeError where a tier has not enough
   * left
   */
  growTo(end: number): void {
    this.grow(end);
    this.issued = end;
  }

  /** Squares for positions up to `end` have been issued in every layer: others may share them. */
  wrote(end: number): void {
    this.writer.written = end;
  }

  private grow(end: number): void {
    const { entries, lists } = this;
    for (let index = entries.length; index < this.begun(end); index++) {
      const tier = this.placement.tierOf(index);
      if (tier === 'gpu') entries.push(this.ownPage(index, this.firstOfGpu + lists.gpu.take()));
      else if (tier === 'memory') entries.push(this.ownPage(index, lists.memory.take()));
      else entries.push(tier === 'disk' ? -1 - lists.disk.take() : this.tail);
    }
  }

  /** A batch of the row is through, in all layers: the first of them has copied what there is to copy. */
  copied(): void {
    if (this.source) this.prefix?.tree.hasRead(this.source);
    this.source = undefined;
  }

  /** Gives everything back; once. */
  release(): void {
    if (this.released) return;
    this.released = true;
    this.copied();
    const { inTree, prefix } = this;
    for (const entry of this.entries.slice(inTree.length).toReversed()) {
      if (entry < 0) this.lists.disk.give(-1 - entry);
      else if (entry >= this.firstOfGpu) this.lists.gpu.give(entry - this.firstOfGpu);
      else if (entry !== this.tail) this.lists.memory.give(entry);
    }
    if (this.tail >= 0) this.lists.memory.give(this.tail);
    // From the last to the first: nothing is given back on which another page builds.
    for (const node of inTree.toReversed()) prefix?.tree.release(node);
    this.onRelease();
  }

  /**
   * A page that is not on disk. One of the prompt's becomes others' to share, unless somebody computes the same
   * already: then what follows is the row's alone, too.
   */
  private ownPage(index: number, page: number): number {
    const node = this.prefix?.nodes[index];
    if (node && node.page === undefined && this.inTree.length === index) {
      this.inTree.push(node);
      this.prefix?.tree.hold(node, page, this.writer);
    }
    return page;
  }

  /** Pages of the GPU are numbered behind those of memory. */
  private get firstOfGpu(): number {
    return this.lists.memory.capacity;
  }

  private begun(end: number): number {
    return Math.min(total(this.placement.pages), Math.max(1, Math.ceil(end / this.pageTokens)));
  }
}
