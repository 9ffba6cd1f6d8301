import type { PageList } from './PageList.js';

/** Who computes the tokens of a page: all positions below `next` have been issued. */
export interface PageWriter {
  readonly next: number;
}

/**
 * A page of tokens with which the prompts of known rows go on from where its parent ends: what a page of the cache holds follows from these tokens and those before
 * them alone. The last one of a prompt may be shorter than a page.
 */
export interface PrefixNode {
  readonly parent: PrefixNode | undefined;
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
  /** Its page of the cache, once a row has taken one for it. */
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
  private readonly root: PrefixNode;
  /** Pages that rows are known for and none holds, oldest first. */
  private readonly idle = new Set<PrefixNode>();
  private readonly stubs = new Set<PrefixNode>();
  /** The way of the row that ended last: the next to come may begin alike, also where rows come one by one. */
  private recent: readonly PrefixNode[] = [];
  private common = 0;

  constructor(
    readonly pageTokens: number,
    private readonly pages: Pick<PageList, 'give'>,
  ) {
    this.root = nodeOf(undefined, 0, []);
  }

  /** Pages that are kept for rows to come: whoever needs the memory may have them. */
  get reclaimable(): number {
    return this.idle.size;
  }

  /** Pages in use that are no single row's: several have them in their tables, or somebody is about to copy what nobody has any more. Each counts once. */
  get commonPages(): number {
    return this.common;
  }

  /** A row is known from now on. @param tokens its prompt; at least one */
  enter(tokens: readonly number[]): PrefixPath {
    const nodes: PrefixNode[] = [];
    let node = this.root;
    for (let start = 0; start < tokens.length; start += this.pageTokens) {
      node = this.child(node, tokens.slice(start, start + this.pageTokens));
      node.known++;
      nodes.push(node);
    }
    return { tokens, nodes };
  }

  /** The row is not known any more: it has ended, and holds nothing. */
  leave({ nodes }: PrefixPath): void {
    const before = this.recent;
    this.recent = nodes;
    for (const node of nodes) {
      node.known--;
      node.kept++;
    }
    for (const node of before.toReversed()) this.unkeep(node);
  }

  /** What a row need not compute; its last token it always does, for what comes next is sampled from it. */
  match({ tokens, nodes }: PrefixPath): PrefixMatch {
    const most = tokens.length - 1;
    let pages = 0;
    while (this.isWhole(nodes[pages], most) && computed(nodes[pages]) === this.pageTokens) pages++;
    let begun = pages;
    while (this.isWhole(nodes[begun], most)) begun++;
    let source: PrefixNode | undefined;
    let part = 0;
    for (const child of this.nodeAt(nodes, pages).resident) {
      const there = Math.min(computed(child), this.commonTokens(child, tokens, most));
      if (there > part) [source, part] = [child, there];
    }
    let coming = 0;
    for (const child of this.nodeAt(nodes, begun).resident) coming = Math.max(coming, this.commonTokens(child, tokens, most));
    return { pages, source, tokens: pages * this.pageTokens + part, coming: begun * this.pageTokens + coming };
  }

  /** Pages of a match that are reclaimable: with a row that holds or copies them they are not. */
  idlePages(path: PrefixPath, { pages, source }: Pick<PrefixMatch, 'pages' | 'source'>): number {
    let idle = 0;
    for (const node of path.nodes.slice(0, pages)) if (this.idle.has(node)) idle++;
    return source && this.idle.has(source) ? idle + 1 : idle;
  }

  /**
   * How much of a prompt is worth computing before the row itself begins, for it and for those that wait and begin alike.
   *
   * @returns tokens of the prefix, and those that it saves: each row beyond the first need not compute what is not there yet
   */
  worth({ tokens, nodes }: PrefixPath, there: number): { readonly tokens: number; readonly saved: number } {
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
    for (const child of this.nodeAt(nodes, depth).children.values()) {
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
    const prefix = this.enter(path.tokens.slice(0, tokens));
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

  /** A row has the node's page in its table. @param page taken for it, where it had none; the row computes what belongs there */
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
    if (node.writer === row) {
      if (computed(node) < node.tokens.length) this.drop(node);
      node.writer = undefined;
    }
  }

  /** A row will copy the first tokens of the node's page. */
  read(node: PrefixNode): void {
    this.use(node, 0, 1);
  }

  /** The tasks that copy them have been issued. */
  hasRead(node: PrefixNode): void {
    this.use(node, 0, -1);
  }

  /** Gives back a page that no row holds: one that no other such page builds on. @returns whether there was any */
  reclaim(): boolean {
    for (const node of this.idle) {
      if (node.resident.size > 0) continue;
      this.drop(node);
      return true;
    }
    return false;
  }

  /** The run is over: no row holds anything. */
  close(): void {
    for (const node of [...this.idle]) this.drop(node);
    this.root.children.clear();
  }

  private child(parent: PrefixNode, tokens: readonly number[]): PrefixNode {
    const key = tokens.join();
    let node = parent.children.get(key);
    if (!node) parent.children.set(key, (node = nodeOf(parent, parent.start + parent.tokens.length, tokens)));
    return node;
  }

  private nodeAt(nodes: readonly PrefixNode[], depth: number): PrefixNode {
    return nodes[depth - 1] ?? this.root;
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
    this.common -= isCommon(node) ? 1 : 0;
    node.holders += holders;
    node.readers += readers;
    this.common += isCommon(node) ? 1 : 0;
    if (isUsed(node)) this.idle.delete(node);
    else if (node.page !== undefined) this.idle.add(node);
    this.prune(node);
  }

  /** Nobody uses the page: it is given back. */
  private drop(node: PrefixNode): void {
    if (node.page === undefined || isUsed(node)) return;
    this.pages.give(node.page);
    node.page = undefined;
    node.parent?.resident.delete(node);
    this.idle.delete(node);
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
    node.parent?.children.delete(node.tokens.join());
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

export function nodeOf(parent: PrefixNode | undefined, start: number, tokens: readonly number[]): PrefixNode {
  return { parent, start, tokens, children: new Map(), resident: new Set(), known: 0, kept: 0, page: undefined, writer: undefined, holders: 0, readers: 0 };
}

/** Tokens of the node's page that have been computed, or are about to be before whatever is issued next. */
export function computed(node: PrefixNode | undefined): number {
  if (node?.page === undefined) return 0;
  return node.writer ? Math.min(node.tokens.length, Math.max(0, node.writer.next - node.start)) : node.tokens.length;
}
