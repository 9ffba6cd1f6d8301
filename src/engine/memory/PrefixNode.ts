import type { PagePlacement } from './PagePlacement.js';
import { isUsed, type PageWriter, type SharedPage } from './SharedPage.js';

/** Tiers where pages may be shared: from a disk every row of a batch would read them each pass. */
export type SharedTier = 'gpu' | 'memory';
/** The places of shared pages: some in memory may come to a GPU, and others stay for the processor to attend to. */
export type SharedPlace = SharedTier | 'stays in memory';

/** A row that waits, as the tree knows it: its prompt, and its place in the order of the rows that wait. */
export interface PrefixPath {
  readonly tokens: readonly number[];
  /** Where the row's pages are if it shares none. */
  readonly placement: PagePlacement;
  /** Rows are expected to go on after its prompt. */
  readonly goesOn: boolean;
  /** Where its prompt ends. */
  readonly leaf: PrefixNode;
  /**
   * The last node on its way of whose page somebody has computed something, or is computing it: followed as pages come
   * and go.
   */
  there: PrefixNode;
  /** In depth-first order, rows whose prompts have pages in common stand beside one another. */
  before: PrefixPath | undefined;
  behind: PrefixPath | undefined;
}

/**
 * A stretch of tokens with which prompts go on from where its parent ends. What a page of the cache holds follows from
 * these tokens and those before them, and from the places where these pages are: the processor attends to those that
 * stay in the host's memory. A page belongs to the node with which its tokens end: one ends wherever prompts part, and
 * where a page does of which somebody has one.
 */
export class PrefixNode implements SharedPage {
  page: number | undefined;
  further: number[] = [];
  writer: PageWriter | undefined;
  holders = 0;
  readers = 0;
  /** Rows that wait and begin so. */
  waiting = 0;
  /** Rows that have come and begin so. */
  begun = 0;
  /** The last of those that wait, in depth-first order; of a node that `gathers`. */
  last: PrefixPath | undefined;
  /** Pages that build on its own, on the same tier. */
  builtHere = 0;
  /** Pages that build on its own, on another tier. */
  builtElsewhere = 0;
  /** The nodes of prompts that go on, by their next token: mostly there is one. */
  private children: PrefixNode | Map<number, PrefixNode> | undefined;
  /** The pages that hold its last token, and more after that. */
  private within: Set<PrefixNode> | undefined;

  /**
   * @param tokens some that hold its own
   * @param origin the position of the first of them
   */
  constructor(
    public parent: PrefixNode | undefined,
    readonly place: SharedPlace,
    public start: number,
    readonly end: number,
    private tokens: readonly number[],
    private origin: number,
  ) {}

  get tier(): SharedTier {
    return this.place === 'gpu' ? 'gpu' : 'memory';
  }

  /** Somebody has computed something of the page in which it ends, up to there, or is computing it. */
  get isThere(): boolean {
    return this.page !== undefined || (this.within !== undefined && this.within.size > 0);
  }

  /**
   * Tells whether rows that begin so stand beside one another: they have a page more in common, whole, than those that
   * part before.
   */
  gathers(pageTokens: number): boolean {
    return Math.floor(this.end / pageTokens) > Math.floor(this.start / pageTokens);
  }

  /** The pages that hold its last token. */
  *pages(): Generator<PrefixNode, void, undefined> {
    if (this.page !== undefined) yield this;
    if (this.within) yield* this.within;
  }

  /** Neither wanted, nor used, nor on the way to one that is. */
  get isBare(): boolean {
    return this.waiting === 0 && this.page === undefined && !isUsed(this) && this.children === undefined;
  }

  child(place: SharedPlace, token: number | undefined): PrefixNode | undefined {
    if (token === undefined || !this.children) return undefined;
    const key = keyOf(place, token);
    if (this.children instanceof Map) return this.children.get(key);
    return this.children.key === key ? this.children : undefined;
  }

  /** All nodes after it. A prompt may have very many. */
  *below(): Generator<PrefixNode, void, undefined> {
    const left: PrefixNode[] = [this];
    for (let node = left.pop(); node; node = left.pop()) {
      if (node !== this) yield node;
      if (node.children instanceof Map) for (const child of node.children.values()) left.push(child);
      else if (node.children) left.push(node.children);
    }
  }

  add(child: PrefixNode): void {
    const { children } = this;
    if (children instanceof Map) children.set(child.key, child);
    else if (!children || children.key === child.key) this.children = child;
    else
      this.children = new Map([
        [children.key, children],
        [child.key, child],
      ]);
  }

  /** Takes it out of the tree. */
  remove(): void {
    const siblings = this.parent?.children;
    if (siblings instanceof Map) {
      siblings.delete(this.key);
      if (siblings.size > 0) return;
    }
    if (this.parent) this.parent.children = undefined;
  }

  /** The first of its positions, up to `end`, where a prompt has another token; else the end. */
  partsAt(prompt: readonly number[], end: number): number {
    const { tokens, origin } = this;
    const most = Math.min(this.end, end);
    let at = this.start;
    while (at < most && tokens[at - origin] === prompt[at]) at++;
    return at;
  }

  /**
   * Cuts it in two. What is known of the node stays with the part after the cut. @returns a new one, for the part
   * before
   */
  split(at: number, pageTokens: number): PrefixNode {
    const front = new PrefixNode(this.parent, this.place, this.start, at, this.tokens, this.origin);
    front.waiting = this.waiting;
    front.begun = this.begun;
    if (front.gathers(pageTokens)) front.last = this.last;
    if (pagesBegun(at, pageTokens) === pagesBegun(this.end, pageTokens) && this.isThere)
      front.within = new Set(this.pages());
    this.parent?.add(front);
    this.parent = front;
    this.start = at;
    if (!this.gathers(pageTokens)) this.last = undefined;
    front.children = this;
    return front;
  }

  /**
   * Keeps a copy of its tokens, where it has them as a part of a prompt, so that the prompt need not be kept for it.
   */
  copyTokens(): void {
    const { start, end, origin } = this;
    if (this.tokens.length === end - start) return;
    this.tokens = this.tokens.slice(start - origin, end - origin);
    this.origin = start;
  }

  /** Somebody has taken a page for it: those on the way to it know, and the page on which it builds. */
  tookPage(pageTokens: number): void {
    this.tellParents(pageTokens, 1, (parent) => (parent.within ??= new Set()).add(this));
  }

  gavePage(pageTokens: number): void {
    this.tellParents(pageTokens, -1, (parent) => parent.within?.delete(this));
  }

  private tellParents(pageTokens: number, built: 1 | -1, tell: (parent: PrefixNode) => void): void {
    const own = pagesBegun(this.end, pageTokens);
    let { parent } = this;
    for (; parent && pagesBegun(parent.end, pageTokens) === own; parent = parent.parent) tell(parent);
    if (parent) parent[parent.tier === this.tier ? 'builtHere' : 'builtElsewhere'] += built;
  }

  private get key(): number {
    return keyOf(this.place, this.tokens[this.start - this.origin] ?? 0);
  }
}

/** Pages that hold the first tokens of a prompt, up to a position. */
export function pagesBegun(end: number, pageTokens: number): number {
  return Math.ceil(end / pageTokens);
}

/** After all tokens. */
const STAYING = 2 ** 32;

/** Children are told apart by their first token, and by their place. */
function keyOf(place: SharedPlace, token: number): number {
  if (place === 'gpu') return -1 - token;
  return place === 'memory' ? token : STAYING + token;
}
