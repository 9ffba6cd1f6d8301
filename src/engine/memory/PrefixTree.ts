import { IdlePages, REASONS, type Reason } from './IdlePages.js';
import { NO_PAGES, plus, type PageCounts } from '../grid/pageCounts.js';
import type { PagePlacement } from './PagePlacement.js';
import { PathList } from './PathList.js';
import { pagesBegun, PrefixNode, type PrefixPath, type SharedPlace, type SharedTier } from './PrefixNode.js';
import { computedUpTo, isComputed, isUsed, type PageWriter } from './SharedPage.js';

/** The part of a prompt already there. */
export interface PrefixMatch {
  /** Whole pages, from the first. */
  readonly pages: number;
  /** The page whose first tokens the prompt shares beyond those. */
  readonly source: PrefixNode | undefined;
  /** Tokens that need not be computed: whole pages and the part of the source. */
  readonly tokens: number;
  /** Tokens that need not be computed once everything that is under way has been. */
  readonly coming: number;
}

/** Pages of a match: with a row that holds or copies them they do not come free. */
export interface PagesBeside {
  /** The pages that nobody holds at present. */
  readonly idle: PageCounts;
  /** Reclaimable pages for which rows wait. */
  readonly wanted: PageCounts;
  /** The pages that would come free now, or with somebody else's end. */
  readonly sole: PageCounts;
}

export const NOTHING_BESIDE: PagesBeside = { idle: NO_PAGES, wanted: NO_PAGES, sole: NO_PAGES };

const NO_MATCH: PrefixMatch = { pages: 0, source: undefined, tokens: 0, coming: 0 };

/** The parts of a tree that are in use: none, once its run is over. */
export interface TreeCensus {
  readonly waiting: number;
  readonly holders: number;
  readonly readers: number;
  /** Pages that it has. */
  readonly pages: number;
  readonly nodes: number;
}

/**
 * Pages that are kept for each reason, of a tier: so many at least, and this share of the tier. Those that rows wait
 * for are no burden: they will be held.
 */
const KEPT: Readonly<Record<Reason, { readonly least: number; readonly share: number }>> = {
  recent: { least: 64, share: 1 / 16 },
  common: { least: 64, share: 1 / 4 },
  wanted: { least: Infinity, share: 1 },
};
/** Pages that are looked at for one to copy from: the first ones are the oldest, and have come furthest. */
const MOST_SOURCES = 4;
/**
 * The share of a page that prompts have to have in common at least: a copy of fewer tokens is hardly worth its while,
 * and nearly all prompts begin with one or two alike.
 */
const LEAST_SHARED = 1 / 4;

/**
 * The prompts of the rows that a run knows of, as a radix tree: rows whose prompts begin with the same tokens share the
 * pages that hold their keys and values. Of a row that waits there are a node where its prompt parts from others' and
 * one for the rest; pages have theirs once a row has taken some.
 *
 * The future is known as far as rows wait, so pages are kept while a row that begins so waits; beyond that those that
 * several rows have begun with, and the last ones. Where memory is short those go first that nobody is known to want.
 */
export class PrefixTree {
  /** By kind of row. */
  private readonly roots = new Map<string, PrefixNode>();
  private readonly idle = new IdlePages();
  private readonly common: Record<SharedTier, number> = { gpu: 0, memory: 0 };
  private readonly lasting: Record<SharedTier, number> = { gpu: 0, memory: 0 };
  private readonly waiting = new PathList();
  /** Rows that wait of whose prompts the first page is there. */
  private begun = 0;
  /** Rows have gone on with pages that were kept, or are expected to. */
  private goesOn = false;

  /**
   * @param give takes back a page of a tier
   * @param tierPages how many there are of each
   * @param groups of layers: a page for the same tokens in each
   */
  constructor(
    readonly pageTokens: number,
    private readonly give: (page: number, tier: SharedTier) => void,
    private readonly tierPages: () => PageCounts = () => NO_PAGES,
    private readonly groups = 1,
  ) {}

  /** Pages that are kept for rows to come: whoever needs the memory may have them. */
  get reclaimable(): PageCounts {
    return this.inAllGroups(this.idle.count);
  }

  /** Reclaimable pages for which rows wait. */
  get wanted(): PageCounts {
    return this.inAllGroups(this.idle.wanted);
  }

  /**
   * Pages in use that are no single row's: several have them in their tables, or somebody is about to copy what nobody
   * has any more. Each counts once.
   */
  get commonPages(): PageCounts {
    return this.inAllGroups({ ...NO_PAGES, ...this.common });
  }

  /** Pages in use that no single row's end gives back. */
  get lastingPages(): PageCounts {
    return this.inAllGroups({ ...NO_PAGES, ...this.lasting });
  }

  /** Tokens that a prompt has in common with that of another row which waits, or has come. */
  commonTokens({ leaf, goesOn }: PrefixPath): number {
    let node: PrefixNode | undefined = leaf;
    while (node && !goesOn && node.begun <= 1) node = node.parent;
    return node?.end ?? 0;
  }

  /**
   * A row waits from now on, after those that begin most like it.
   * @param kind rows of which it may share with
   * @param goesOn rows are expected to go on after its prompt
   */
  enter(tokens: readonly number[], placement: PagePlacement, kind = '', goesOn = false): PrefixPath {
    let root = this.roots.get(kind);
    if (!root) this.roots.set(kind, (root = new PrefixNode(undefined, 'memory', 0, 0, [], 0)));
    let node = root;
    let before: PrefixPath | undefined;
    while (node.end < tokens.length) {
      node = this.next(node, tokens, placement);
      before = node.last ?? before;
    }
    const path = { tokens, placement, goesOn, leaf: node, there: root, before: undefined, behind: undefined };
    this.waiting.insert(path, before);
    this.goesOn ||= goesOn;
    for (let each: PrefixNode | undefined = node; each; each = each.parent) {
      each.waiting++;
      each.begun++;
      if (this.isFirst(each) && each.page !== undefined) this.begun++;
      if (each.gathers(this.pageTokens) && (each.last === undefined || each.last === before)) each.last = path;
      if (this.idle.reasonFor(each)) this.idle.put(each);
    }
    return path;
  }

  /** The row waits no more: it has its pages, or will never come. */
  leave(path: PrefixPath): void {
    for (let node: PrefixNode | undefined = path.leaf; node; node = node.parent) {
      node.waiting--;
      if (this.isFirst(node) && node.page !== undefined) this.begun--;
      if (node.last === path) node.last = node.waiting > 0 ? path.before : undefined;
      if (this.idle.reasonFor(node)) this.keep(node);
    }
    this.waiting.remove(path);
    this.prune(path.leaf);
  }

  /**
   * The rows that wait: those that share most pages that are there come first, and rows that begin alike together; else
   * in order of arrival.
   */
  *inTurn(): Generator<PrefixPath, void, undefined> {
    if (this.begun === 0) {
      yield* this.waiting;
      return;
    }
    const byPages = new Map<number, PrefixPath[]>();
    for (const path of this.waiting) {
      const pages = Math.floor(this.follow(path).end / this.pageTokens);
      const others = byPages.get(pages);
      if (others) others.push(path);
      else byPages.set(pages, [path]);
    }
    for (const [, paths] of [...byPages].sort(([a], [b]) => b - a)) yield* paths;
  }

  /** Finds what a row need not compute; its last token it always does, for what comes next is sampled from it. */
  match(path: PrefixPath): PrefixMatch {
    const most = path.tokens.length - 1;
    const there = this.follow(path);
    if (!this.isWorthSharing(Math.min(there.end, most))) return NO_MATCH;
    let whole: PrefixNode | undefined = there;
    while (whole && !this.isWhole(whole, most)) whole = whole.parent;
    const start = whole?.end ?? 0;
    let source: PrefixNode | undefined;
    let tokens = start;
    for (let node: PrefixNode | undefined = there; node && node.end > start; node = node.parent) {
      if (pagesBegun(node.end, this.pageTokens) * this.pageTokens > start + this.pageTokens) continue;
      let looked = 0;
      for (const page of node.pages()) {
        const upTo = Math.min(computedUpTo(page), node.end, most);
        if (upTo > tokens) [source, tokens] = [page, upTo];
        if (++looked === MOST_SOURCES) break;
      }
    }
    if (!this.isWorthSharing(tokens)) [source, tokens] = [undefined, 0];
    return { pages: start / this.pageTokens, source, tokens, coming: Math.min(there.end, most) };
  }

  /** Finds what a row that takes the pages of a match keeps from coming free. */
  beside(path: PrefixPath, { pages, source }: Pick<PrefixMatch, 'pages' | 'source'>): PagesBeside {
    const beside = { idle: { ...NO_PAGES }, wanted: { ...NO_PAGES }, sole: { ...NO_PAGES } };
    const count = (node: PrefixNode): void => {
      const reason = this.idle.reasonFor(node);
      if (reason) beside.idle[node.tier]++;
      if (reason === 'wanted') beside.wanted[node.tier]++;
      if (!isLasting(node)) beside.sole[node.tier]++;
    };
    if (source) count(source);
    for (let node: PrefixNode | undefined = path.there; node && pages > 0; node = node.parent) {
      if (node.end <= pages * this.pageTokens && node.end > 0 && node.end % this.pageTokens === 0) count(node);
    }
    const { idle, wanted, sole } = beside;
    return { idle: this.inAllGroups(idle), wanted: this.inAllGroups(wanted), sole: this.inAllGroups(sole) };
  }

  /**
   * How much of a prompt is worth computing before the row itself begins, for it and for those that wait and begin
   * alike.
   *
   * @returns tokens of the prefix, and those that it saves: each row beyond the first need not compute what is not
   * there yet, nor the first what somebody computes already
   */
  worth(
    path: PrefixPath,
    { tokens: there, coming }: Pick<PrefixMatch, 'tokens' | 'coming'>,
  ): { readonly tokens: number; readonly saved: number } {
    const most = path.tokens.length - 1;
    let shared: PrefixNode | undefined = path.leaf;
    while (shared && shared.waiting <= 1) shared = shared.parent;
    const tokens = Math.min(shared?.end ?? 0, most);
    // As `match` will judge it: what is computed and then not taken would be computed again and again.
    if (!this.isWorthSharing(Math.max(coming, tokens))) return { tokens: 0, saved: 0 };
    let saved = coming - there;
    for (let node = shared; node && node.end > there; node = node.parent)
      saved += (node.waiting - 1) * Math.max(0, Math.min(node.end, most) - Math.max(node.start, there));
    return { tokens, saved };
  }

  /** The pages of a prompt's first tokens, in order. The last one may end in the middle of a page. */
  pagesOf(path: PrefixPath, tokens: number): PrefixNode[] {
    const nodes: PrefixNode[] = [];
    let node: PrefixNode | undefined = path.leaf;
    for (
      let end = Math.min(tokens, path.tokens.length);
      end > 0;
      end = (pagesBegun(end, this.pageTokens) - 1) * this.pageTokens
    ) {
      while (node && node.start >= end) node = node.parent;
      if (!node) break;
      if (node.end > end) node = node.split(end, this.pageTokens);
      nodes.push(node);
    }
    // The prompt may be forgotten before they are.
    for (let [each] = nodes as (PrefixNode | undefined)[]; each; each = each.parent) each.copyTokens();
    return nodes.reverse();
  }

  /**
   * A row has the node's page in its table.
   * @param pages taken for it on its tier, one a group, where it had none; the row computes what belongs there
   */
  hold(node: PrefixNode, pages?: readonly number[], writer?: PageWriter): void {
    if (pages !== undefined) {
      [node.page, ...node.further] = pages;
      node.writer = writer;
      node.tookPage(this.pageTokens);
      if (this.isFirst(node)) this.begun += node.waiting;
    }
    this.use(node, 1, 0);
  }

  /** The row has ended. What it has not computed is nobody's. */
  release(node: PrefixNode): void {
    this.use(node, -1, 0);
  }

  /** A row will copy the first tokens of the node's page. */
  read(node: PrefixNode): void {
    this.use(node, 0, 1);
  }

  /** The tasks that copy them have been issued. */
  hasRead(node: PrefixNode): void {
    this.use(node, 0, -1);
  }

  /**
   * Gives back a page of a tier that is kept for this reason: one that no other such page of the tier builds on, and
   * those of other tiers that do. @returns whether there was any
   */
  reclaim(tier: SharedTier, reason: Reason): boolean {
    const node = this.idle.spare(tier, reason);
    if (node) this.drop(node);
    return node !== undefined;
  }

  /**
   * Gives back a page of a tier that a row had a short while ago, but for the last ones, where memory would have to be
   * touched for the first time to keep it: while rows are known to come, none of which begins so, and as long as none
   * goes on with a page that was kept. @returns whether there was any
   */
  reuse(tier: SharedTier): boolean {
    if (this.goesOn || this.waiting.isEmpty) return false;
    const node = this.idle.spare(tier, 'recent', KEPT.recent.least);
    if (node) this.drop(node);
    return node !== undefined;
  }

  /** The run is over: no row waits or holds anything. */
  close(): void {
    for (const tier of ['gpu', 'memory'] as const) for (const reason of REASONS) while (this.reclaim(tier, reason));
  }

  census(): TreeCensus {
    const sum = { waiting: 0, holders: 0, readers: 0, pages: 0, nodes: 0 };
    for (const root of this.roots.values()) {
      sum.waiting += root.waiting;
      for (const node of root.below()) {
        sum.holders += node.holders;
        sum.readers += node.readers;
        sum.pages += node.page === undefined ? 0 : 1;
        sum.nodes++;
      }
    }
    return sum;
  }

  /**
   * Where a prompt goes on after a node: with tokens that others have there, too, as far as it does, or with all of
   * its own.
   */
  private next(node: PrefixNode, tokens: readonly number[], placement: PagePlacement): PrefixNode {
    const { place, end } = this.stretch(node.end, tokens.length, placement);
    const child = node.child(place, tokens[node.end]);
    if (!child) {
      const rest = new PrefixNode(node, place, node.end, end, tokens, 0);
      node.add(rest);
      return rest;
    }
    const at = child.partsAt(tokens, end);
    return at < child.end ? child.split(at, this.pageTokens) : child;
  }

  /** Finds the positions of a prompt, from one on, that are in the same place. */
  private stretch(
    start: number,
    length: number,
    { inTable, attendedPages }: PagePlacement,
  ): { readonly place: SharedPlace; readonly end: number } {
    const gpuEnd = inTable.gpu * this.pageTokens;
    if (start < gpuEnd) return { place: 'gpu', end: Math.min(length, gpuEnd) };
    const attendedEnd = (attendedPages ?? Infinity) * this.pageTokens;
    if (start < attendedEnd) return { place: 'memory', end: Math.min(length, attendedEnd) };
    return { place: 'stays in memory', end: length };
  }

  /** Goes on from where the row's way was last known to lead to what is there. */
  private follow(path: PrefixPath): PrefixNode {
    const { tokens, placement } = path;
    let node = path.there;
    while (node.parent && !node.isThere) node = node.parent;
    for (;;) {
      const next = node.child(this.stretch(node.end, tokens.length, placement).place, tokens[node.end]);
      if (!next?.isThere) break;
      node = next;
    }
    return (path.there = node);
  }

  /** Tells whether a row whose tokens up to `most` may be shared can have the node's page in its table. */
  private isWhole(node: PrefixNode, most: number): boolean {
    return node.page !== undefined && node.end % this.pageTokens === 0 && node.end <= most && isComputed(node);
  }

  private inAllGroups(pages: PageCounts): PageCounts {
    return this.groups === 1 ? pages : plus(NO_PAGES, pages, this.groups);
  }

  private isFirst(node: PrefixNode): boolean {
    return node.end === this.pageTokens;
  }

  private isWorthSharing(tokens: number): boolean {
    return tokens >= this.pageTokens * LEAST_SHARED;
  }

  /** So many more hold the node's page, or are about to copy it. */
  private use(node: PrefixNode, holders: number, readers: number): void {
    this.count(node, -1);
    node.holders += holders;
    node.readers += readers;
    this.count(node, 1);
    if (isUsed(node)) {
      this.goesOn ||= this.idle.reasonFor(node) !== undefined;
      this.idle.take(node);
    } else if (isComputed(node)) this.keep(node);
    // Nobody goes on with what is there of it.
    else this.drop(node);
  }

  private count(node: PrefixNode, sign: 1 | -1): void {
    if (isCommon(node)) this.common[node.tier] += sign;
    if (isLasting(node)) this.lasting[node.tier] += sign;
  }

  /** Keeps a page that nobody uses; where there are too many that are kept for the same reason, others go. */
  private keep(node: PrefixNode): void {
    this.idle.put(node);
    const all = this.tierPages()[node.tier] / this.groups;
    for (const reason of REASONS) {
      const { least, share } = KEPT[reason];
      const most = Math.max(least, Math.floor(all * share));
      for (
        let spare = this.idle.spare(node.tier, reason, most);
        spare;
        spare = this.idle.spare(node.tier, reason, most)
      )
        this.drop(spare);
    }
  }

  /** Nobody uses the page, nor, therefore, any that builds on it: what does on other tiers is nothing without it. */
  private drop(node: PrefixNode): void {
    const pages = [node];
    if (node.builtElsewhere > 0) for (const other of node.below()) if (other.page !== undefined) pages.push(other);
    for (const each of pages) this.giveBack(each);
    for (const each of pages) this.prune(each);
  }

  private giveBack(node: PrefixNode): void {
    if (node.page === undefined) return;
    for (const page of [node.page, ...node.further]) this.give(page, node.tier);
    node.gavePage(this.pageTokens);
    if (this.isFirst(node)) this.begun -= node.waiting;
    node.page = undefined;
    node.further = [];
    node.writer = undefined;
    this.idle.take(node);
  }

  /** Nodes that nobody wants go, with those before them that led to nothing else. */
  private prune(node: PrefixNode): void {
    let bare = node;
    while (bare.parent && bare.isBare) {
      bare.remove();
      bare = bare.parent;
    }
  }
}

/** Somebody else has it in its table, too, or nobody has and somebody copies it. */
function isCommon({ holders, readers }: PrefixNode): boolean {
  return holders > 1 || (holders === 0 && readers > 0);
}

function isLasting({ holders, readers }: PrefixNode): boolean {
  return holders > 1 || readers > 0;
}
