import { NO_PAGES, type PageCounts } from './pageCounts.js';
import { firstPages } from './rowPlacement.js';

/** Tiers where pages may be shared: from a disk every row of a batch would read them each pass. */
export type SharedTier = 'gpu' | 'memory';

/** Who computes the tokens of a page: all positions below `next` have been issued. */
export interface PageWriter {
  readonly next: number;
}

/**
 * A page of tokens with which the prompts of known rows go on from where its parent ends: what a page of the cache holds follows from these tokens and those before
 * them, and from the tiers on which these pages are: the processor attends to those in the host's memory. The last one of a prompt may be shorter than a page.
 */
export interface PrefixNode {
  readonly parent: PrefixNode | undefined;
  readonly tier: SharedTier;
  /** The position of its first token. */
  readonly start: number;
  readonly tokens: readonly number[];
  readonly children: Map<string, PrefixNode>;
  /** Children that have a page. */
  readonly resident: Set<PrefixNode>;
  /** Rows that wait or run and whose prompts begin so. */
  known: number;
  /** Reasons to keep its page although no row is known that begins so. */
  kept: number;
  /** Its page of the cache, as page tables name it, once a row has taken one for it. */
  page: number | undefined;
  /** Who computes it; undefined once all of its tokens have been. */
  writer: PageWriter | undefined;
  /** Rows that have the page in their tables. */
  holders: number;
  /** Rows that are about to copy what they share of it. */
  readers: number;
}

/** The way of one row's prompt through the tree. */
export interface PrefixPath {
  readonly tokens: readonly number[];
  /** Page by page; the last one may be shorter than a page. */
  readonly nodes: readonly PrefixNode[];
  /** What else the row's results depend on: rows of two kinds share nothing. */
  readonly kind: string;
  /** Where the row's pages are if it shares none. */
  readonly placement: PageCounts;
}

/** What of a prompt is there already. */
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

/** Prefixes that no row waits for in full any more, kept for their beginnings. */
const MOST_STUBS = 64;

/**
 * The prompts of the rows that a run knows of, those that run and those that wait, as a radix tree of pages: rows whose prompts begin with the same tokens share the
 * pages that hold their keys and values. The future is known as far as rows wait, so a page is kept while a row that begins so is known, and no longer;
 * where memory is short, those that no row holds go first.
 */
export class PrefixTree {
  /** By kind of row. */
  private readonly roots = new Map<string, PrefixNode>();
  /** Pages that rows are known for and none holds, oldest first. */
  private readonly idle: Readonly<Record<SharedTier, Set<PrefixNode>>> = { gpu: new Set(), memory: new Set() };
  private readonly stubs = new Set<PrefixNode>();
  /** The way of the row that ended last: the next to come may begin alike, also where rows come one by one. */
  private recent: readonly PrefixNode[] = [];
  private readonly common: Record<SharedTier, number> = { gpu: 0, memory: 0 };

  /** @param give takes back a page of a tier */
  constructor(
    readonly pageTokens: number,
    private readonly give: (page: number, tier: SharedTier) => void,
  ) {}

  /** Pages that are kept for rows to come: whoever needs the memory may have them. */
  get reclaimable(): PageCounts {
    return { ...NO_PAGES, gpu: this.idle.gpu.size, memory: this.idle.memory.size };
  }

  /** Pages in use that are no single row's: several have them in their tables, or somebody is about to copy what nobody has any more. Each counts once. */
  get commonPages(): PageCounts {
    return { ...NO_PAGES, ...this.common };
  }

  /** A row is known from now on. @param tokens its prompt; at least one @param kind rows of which it may share with */
  enter(tokens: readonly number[], placement: PageCounts, kind = ''): PrefixPath {
    const nodes: PrefixNode[] = [];
    let root = this.roots.get(kind);
    if (!root) this.roots.set(kind, (root = nodeOf(undefined, 'memory', 0, [])));
    let node = root;
    for (let start = 0; start < tokens.length; start += this.pageTokens) {
      node = this.child(node, nodes.length < placement.gpu ? 'gpu' : 'memory', tokens.slice(start, start + this.pageTokens));
      node.known++;
      nodes.push(node);
    }
    return { tokens, nodes, kind, placement };
  }

  /** The row is not known any more: it has ended, and holds nothing. */
  leave({ nodes }: Pick<PrefixPath, 'nodes'>): void {
    const before = this.recent;
    this.recent = nodes;
    for (const node of nodes) {
      node.known--;
      node.kept++;
    }
    for (const node of before.toReversed()) this.unkeep(node);
  }

  /** What a row need not compute; its last token it always does, for what comes next is sampled from it. */
  match(path: PrefixPath): PrefixMatch {
    const { tokens, nodes } = path;
    const most = tokens.length - 1;
    let pages = 0;
    while (this.isWhole(nodes[pages], most) && computed(nodes[pages]) === this.pageTokens) pages++;
    let begun = pages;
    while (this.isWhole(nodes[begun], most)) begun++;
    let source: PrefixNode | undefined;
    let part = 0;
    for (const child of this.siblings(path, pages, 'resident')) {
      const there = Math.min(computed(child), this.commonTokens(child, tokens, most));
      if (there > part) [source, part] = [child, there];
    }
    let coming = 0;
    for (const child of this.siblings(path, begun, 'resident')) coming = Math.max(coming, this.commonTokens(child, tokens, most));
    return { pages, source, tokens: pages * this.pageTokens + part, coming: begun * this.pageTokens + coming };
  }

  /** Pages of a match that are reclaimable: with a row that holds or copies them they are not. */
  idlePages(path: PrefixPath, { pages, source }: Pick<PrefixMatch, 'pages' | 'source'>): PageCounts {
    const idle = { ...NO_PAGES };
    for (const node of [...path.nodes.slice(0, pages), ...(source ? [source] : [])]) if (this.idle[node.tier].has(node)) idle[node.tier]++;
    return idle;
  }

  /**
   * How much of a prompt is worth computing before the row itself begins, for it and for those that wait and begin alike.
   *
   * @returns tokens of the prefix, and those that it saves: each row beyond the first need not compute what is not there yet
   */
  worth(path: PrefixPath, there: number): { readonly tokens: number; readonly saved: number } {
    const { tokens, nodes } = path;
    const most = tokens.length - 1;
    let depth = 0;
    let saved = 0;
    for (let node = nodes[0]; node && node.known > 1 && node.start + this.pageTokens <= most; node = nodes[depth]) {
      saved += (node.known - 1) * (this.pageTokens - Math.min(this.pageTokens, Math.max(0, there - node.start)));
      depth++;
    }
    // Behind the last page that others have too, some of their next pages may begin as this row's does.
    const start = depth * this.pageTokens;
    const sharers = new Int32Array(this.pageTokens + 1);
    for (const child of this.siblings(path, depth, 'children')) {
      const others = child.known - (child === nodes[depth] ? 1 : 0);
      const common = this.commonTokens(child, tokens, most);
      sharers[common] = (sharers[common] ?? 0) + others;
    }
    let best = { tokens: start, saved };
    let rows = 0;
    for (let part = this.pageTokens; part > 0; part--) {
      rows += sharers[part] ?? 0;
      const more = rows * (part - Math.min(part, Math.max(0, there - start)));
      if (saved + more > best.saved) best = { tokens: start + part, saved: saved + more };
    }
    return best;
  }

  /** A path for the first tokens of another one, to be computed by themselves. What of its last page is shared is kept for as long as the page before it is known. */
  enterPrefix(path: PrefixPath, tokens: number): PrefixPath {
    const placement = firstPages(path.placement, Math.ceil(tokens / this.pageTokens));
    const prefix = this.enter(path.tokens.slice(0, tokens), placement, path.kind);
    const last = prefix.nodes.at(-1);
    if (last && last.tokens.length < this.pageTokens && !this.stubs.has(last)) {
      last.kept++;
      this.stubs.add(last);
      for (const stub of this.stubs) {
        if (this.stubs.size <= MOST_STUBS) break;
        this.dropStub(stub);
      }
    }
    return prefix;
  }

  /** A row has the node's page in its table. @param page taken for it on its tier, where it had none; the row computes what belongs there */
  hold(node: PrefixNode, page?: number, writer?: PageWriter): void {
    if (page !== undefined) {
      node.page = page;
      node.writer = writer;
      node.parent?.resident.add(node);
    }
    this.use(node, 1, 0);
  }

  /** The row has ended. What it has not computed is nobody's. */
  release(node: PrefixNode, row: PageWriter): void {
    this.use(node, -1, 0);
    if (node.writer !== row) return;
    const unfinished = computed(node) < node.tokens.length;
    if (unfinished) this.drop(node);
    // Somebody may be about to copy of it what there is: nobody goes on with the rest.
    node.writer = unfinished && node.page !== undefined ? { next: row.next } : undefined;
  }

  /** A row will copy the first tokens of the node's page. */
  read(node: PrefixNode): void {
    this.use(node, 0, 1);
  }

  /** The tasks that copy them have been issued. */
  hasRead(node: PrefixNode): void {
    this.use(node, 0, -1);
  }

  /** Gives back a page of a tier that no row holds: one that no other such page of the tier builds on, and those of other tiers that do. @returns whether there was any */
  reclaim(tier: SharedTier): boolean {
    for (const node of this.idle[tier]) {
      if ([...node.resident].some((child) => child.tier === tier)) continue;
      this.dropWithRest(node);
      return true;
    }
    return false;
  }

  /** The run is over: no row holds anything. */
  close(): void {
    for (const node of [...this.idle.gpu, ...this.idle.memory]) this.drop(node);
    this.roots.clear();
  }

  private child(parent: PrefixNode, tier: SharedTier, tokens: readonly number[]): PrefixNode {
    const key = keyOf(tier, tokens);
    let node = parent.children.get(key);
    if (!node) parent.children.set(key, (node = nodeOf(parent, tier, parent.start + parent.tokens.length, tokens)));
    return node;
  }

  /** The nodes of that depth with which a row may have its first tokens in common: those on its own page's tier. */
  private *siblings({ nodes, kind }: PrefixPath, depth: number, which: 'resident' | 'children'): Generator<PrefixNode, void, undefined> {
    const parent = depth > 0 ? nodes[depth - 1] : this.roots.get(kind);
    for (const child of parent?.[which].values() ?? []) if (child.tier === nodes[depth]?.tier) yield child;
  }

  /** Whether a row whose tokens up to `most` may be shared can have the node's page in its table. */
  private isWhole(node: PrefixNode | undefined, most: number): boolean {
    return node?.page !== undefined && node.tokens.length === this.pageTokens && node.start + this.pageTokens <= most;
  }

  /** The first tokens of a node that a prompt has, too, up to its `most`. */
  private commonTokens({ start, tokens: own }: PrefixNode, tokens: readonly number[], most: number): number {
    const end = Math.min(own.length, most - start);
    let common = 0;
    while (common < end && own[common] === tokens[start + common]) common++;
    return common;
  }

  /** So many more hold the node's page, or are about to copy it. */
  private use(node: PrefixNode, holders: number, readers: number): void {
    this.common[node.tier] -= isCommon(node) ? 1 : 0;
    node.holders += holders;
    node.readers += readers;
    this.common[node.tier] += isCommon(node) ? 1 : 0;
    const idle = this.idle[node.tier];
    if (isUsed(node)) idle.delete(node);
    else if (node.page !== undefined) idle.add(node);
    this.prune(node);
  }

  /** Nobody uses the page: it is given back. */
  private drop(node: PrefixNode): void {
    if (node.page === undefined || isUsed(node)) return;
    this.give(node.page, node.tier);
    node.page = undefined;
    node.parent?.resident.delete(node);
    this.idle[node.tier].delete(node);
  }

  /** Whoever uses a page uses those that it builds on, so nobody uses what builds on this one. */
  private dropWithRest(node: PrefixNode): void {
    for (const child of node.resident) this.dropWithRest(child);
    this.drop(node);
  }

  private unkeep(node: PrefixNode): void {
    node.kept--;
    this.prune(node);
  }

  /** A node that is neither wanted nor used goes; one that is used stays until it is not, so that no other stands for the same tokens. */
  private prune(node: PrefixNode): void {
    if (isWanted(node) || isUsed(node)) return;
    for (const child of node.children.values()) this.dropStub(child);
    this.drop(node);
    node.parent?.children.delete(keyOf(node.tier, node.tokens));
  }

  private dropStub(node: PrefixNode): void {
    if (this.stubs.delete(node)) this.unkeep(node);
  }
}

function isUsed({ holders, readers }: PrefixNode): boolean {
  return holders > 0 || readers > 0;
}

function isWanted({ known, kept }: PrefixNode): boolean {
  return known > 0 || kept > 0;
}

function isCommon({ holders, readers }: PrefixNode): boolean {
  return holders > 1 || (holders === 0 && readers > 0);
}

function keyOf(tier: SharedTier, tokens: readonly number[]): string {
  return `${tier} ${tokens.join()}`;
}

export function nodeOf(parent: PrefixNode | undefined, tier: SharedTier, start: number, tokens: readonly number[]): PrefixNode {
  return { parent, tier, start, tokens, children: new Map(), resident: new Set(), known: 0, kept: 0, page: undefined, writer: undefined, holders: 0, readers: 0 };
}

/** Tokens of the node's page that have been computed, or are about to be before whatever is issued next. */
export function computed(node: PrefixNode | undefined): number {
  if (node?.page === undefined) return 0;
  return node.writer ? Math.min(node.tokens.length, Math.max(0, node.writer.next - node.start)) : node.tokens.length;
}
