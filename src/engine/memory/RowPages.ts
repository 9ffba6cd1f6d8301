import { GIVEN_BACK, type GroupTable, type PageCopy, type PageTable } from '../grid/PageTable.js';
import { ALL_POSITIONS, type CacheLaw } from '../grid/CacheLaw.js';
import type { PageList } from './PageList.js';
import { NO_PAGES, type PageTier, type PageCounts } from '../grid/pageCounts.js';
import { ELSEWHERE, type SharedStretch } from '../schedules/PathChecker.js';
import type { RowId } from '../grid/Square.js';
import type { PagePlacement, RowLengths } from './PagePlacement.js';
import { stretchesOf, type PageWriter, type SharedPage } from './SharedPage.js';

/** Who counts the holders of pages that several rows have in their tables. */
export interface PrefixPages {
  /** @param pages taken for it, one a group, where it had none: the row computes what belongs there */
  hold(node: SharedPage, pages?: readonly number[], writer?: PageWriter): void;
  /** The row has ended. */
  release(node: SharedPage): void;
  /** A row will copy the first tokens of the page. */
  read(node: SharedPage): void;
  hasRead(node: SharedPage): void;
}

/** The part of a row's prompt that rows have in common: its pages, and what of them is there. */
export interface RowPrefix {
  readonly tree: PrefixPages;
  /** Pages of the prompt, as far as it may be shared. */
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

const NO_TABLE: GroupTable = { entries: [], tail: -1 };

/** The pages of each tier, of which rows take and to which they give back. */
export type PageLists = Readonly<Record<PageTier, PageList>> & {
  /** States that layers remember, one a row; where some do. */
  readonly states?: PageList | undefined;
};

/** The pages of a row in one group of layers. */
interface HeldTable extends GroupTable {
  readonly entries: number[];
  readonly law: CacheLaw;
  /** Pages, from the first that is the row's own, that have been given back. */
  given: number;
}

/** The KV pages that one row holds. */
export class RowPages implements PageTable {
  readonly entries: readonly number[];
  readonly tail: number;
  readonly further: readonly GroupTable[] | undefined;
  private readonly tables: readonly HeldTable[];
  /** Where groups give pages back before the row ends: first positions of its batches under way, in order. */
  private readonly underWay: number[] = [];
  private readonly givesBack: boolean;
  readonly attendedPages: number | undefined;
  readonly copy: PageCopy | undefined;
  readonly state: number | undefined;
  /** Tokens of the prompt that others have computed, from the first, and who has. */
  readonly sharedTokens: number;
  readonly shared: readonly SharedStretch[];
  /** Prompts of rows of a higher one are computed before those of others. */
  priority = 0;
  /** It keeps what it has, and does not grow: its place is another row's for a while. */
  paused = false;
  /** The batch that it was in last, or is expected to join. */
  slot = 0;
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
    private readonly onGivenBack: () => void = () => undefined,
    readonly keeper = 0,
  ) {
    const { pages = 0, source, tokens = 0 } = prefix?.match ?? {};
    this.writer = { row, written: 0 };
    this.own = { behind: 0, placement };
    const { given = 0 } = lengths;
    this.issued = this.sharedTokens = Math.max(tokens, given);
    const shared = prefix?.nodes.slice(0, pages) ?? [];
    this.shared = given > 0 ? [{ row: ELSEWHERE, end: given }] : stretchesOf(shared, source, tokens);
    if (prefix && source?.page !== undefined) {
      this.source = source;
      this.copy = {
        from: source.page,
        position: tokens,
        ...(source.further.length > 0 && { further: source.further }),
      };
      prefix.tree.read(source);
    }
    this.state = lists.states?.take();
    const spills = placement.pages.disk > 0;
    this.tables = placement.laws.map((law) => ({
      entries: [],
      tail: spills ? lists.memory.take() : -1,
      law,
      given: law.stays(pageTokens),
    }));
    const [{ entries, tail } = NO_TABLE, ...further] = this.tables;
    this.entries = entries;
    this.tail = tail;
    this.further = further.length > 0 ? further : undefined;
    this.givesBack = placement.wholePages < placement.length;
    for (const node of shared) {
      if (node.page === undefined) throw new RangeError('a shared page is not there');
      for (const [group, page] of [node.page, ...node.further].entries()) this.tables[group]?.entries.push(page);
      this.inTree.push(node);
      prefix?.tree.hold(node);
    }
    this.attendedPages = placement.attendedPages;
    // Groups that give back the prompt's first pages before its last ones come take them with their squares.
    this.grow(Math.min(lengths.promptTokens, lengths.positions), ({ law }) => law === ALL_POSITIONS);
  }

  /** The first position that no square has been issued for. */
  get next(): number {
    return this.issued;
  }

  /** Sweeps to come advance it. */
  get advances(): boolean {
    return !this.paused && this.issued < this.lengths.positions;
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
    return this.tables.reduce((least, { entries }) => Math.min(least, entries.length), Infinity) * this.pageTokens;
  }

  /** Some of its prompt is under way, or to come. */
  get inPrompt(): boolean {
    return this.through < this.lengths.promptTokens;
  }

  /** Most tokens that may be issued together once the prompt has been computed. */
  get mostTokens(): number {
    return this.givesBack ? this.pageTokens : Infinity;
  }

  /** Pages that the row has yet to take before positions up to `end` can be computed. */
  lacks(end: number): PageCounts {
    const lacking = { ...NO_PAGES } as Record<PageTier, number>;
    for (const { entries } of this.tables)
      for (let index = entries.length; index < this.begun(end); index++) {
        const tier = this.placement.tierOf(index);
        if (tier !== 'tail') lacking[tier]++;
      }
    return lacking;
  }

  /**
   * The batch of the row's from position `first` on has been through all layers, and nothing of it is under way any
   * more: what no later one looks at is given back.
   */
  left(first: number): void {
    if (!this.givesBack || this.released) return;
    const at = this.underWay.indexOf(first);
    if (at >= 0) this.underWay.splice(at, 1);
    const { through, pageTokens, inTree } = this;
    let any = false;
    for (const table of this.tables) {
      const end = Math.min(table.law.letGo(through, pageTokens), table.entries.length);
      for (let index = Math.max(inTree.length, table.given); index < end; index++) {
        this.giveBack(table, table.entries[index]);
        table.entries[index] = GIVEN_BACK;
        any = true;
      }
      table.given = Math.max(table.given, end);
    }
    if (any) this.onGivenBack();
  }

  /** All positions before it have been computed, in every layer. */
  private get through(): number {
    return this.underWay[0] ?? this.issued;
  }

  /**
   * A square for positions up to `end` is issued: takes what they need. @throws RangeError where a tier has not enough
   * left
   */
  growTo(end: number): void {
    this.grow(end);
    if (this.givesBack) this.underWay.push(this.issued);
    this.issued = end;
  }

  /** Squares for positions up to `end` have been issued in every layer: others may share them. */
  wrote(end: number): void {
    this.writer.written = end;
  }

  /** @param takes whether a group takes pages that it does not hold as long as the row lives */
  private grow(end: number, takes: (table: HeldTable) => boolean = () => true): void {
    const { entries, tables } = this;
    const begun = this.begun(end);
    // What others may share they share in all groups.
    for (let index = entries.length; index < Math.min(begun, this.placement.wholePages); index++) {
      const tier = this.placement.tierOf(index);
      const pages = tables.map((table) => this.take(table, index));
      if (tier === 'gpu' || tier === 'memory') this.share(index, pages);
    }
    for (const table of tables)
      if (takes(table)) for (let index = table.entries.length; index < begun; index++) this.take(table, index);
  }

  private take(table: HeldTable, index: number): number {
    const { lists } = this;
    const tier = this.placement.tierOf(index);
    const page =
      tier === 'gpu'
        ? this.firstOfGpu + lists.gpu.take()
        : tier === 'memory'
          ? lists.memory.take()
          : tier === 'disk'
            ? -1 - lists.disk.take()
            : table.tail;
    table.entries.push(page);
    return page;
  }

  private giveBack({ tail }: HeldTable, entry = tail): void {
    if (entry === GIVEN_BACK || entry === tail) return;
    if (entry < 0) this.lists.disk.give(-1 - entry);
    else if (entry >= this.firstOfGpu) this.lists.gpu.give(entry - this.firstOfGpu);
    else this.lists.memory.give(entry);
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
    for (const table of this.tables) {
      for (const entry of table.entries.slice(inTree.length).toReversed()) this.giveBack(table, entry);
      if (table.tail >= 0) this.lists.memory.give(table.tail);
    }
    if (this.state !== undefined) this.lists.states?.give(this.state);
    // From the last to the first: nothing is given back on which another page builds.
    for (const node of inTree.toReversed()) prefix?.tree.release(node);
    this.onRelease();
  }

  /**
   * Pages that are not on disk. Those of the prompt become others' to share, unless somebody computes the same already:
   * then what follows is the row's alone, too.
   */
  private share(index: number, pages: readonly number[]): void {
    const node = this.prefix?.nodes[index];
    if (node?.page !== undefined || this.inTree.length !== index || !node) return;
    this.inTree.push(node);
    this.prefix?.tree.hold(node, pages, this.writer);
  }

  /** Pages of the GPU are numbered after those of memory. */
  private get firstOfGpu(): number {
    return this.lists.memory.capacity;
  }

  private begun(end: number): number {
    return Math.min(this.placement.length, Math.max(1, Math.ceil(end / this.pageTokens)));
  }
}
