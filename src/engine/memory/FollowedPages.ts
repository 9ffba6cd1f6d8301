import { PeerError } from '../../errors/PeerError.js';
import { computed, nodeOf, type PageWriter, type PrefixNode } from './PrefixTree.js';
import type { PrefixPages, RowPrefix } from './RowPages.js';
import type { SharedPrefix } from './SharedPrefix.js';

const NUMBER = 'the number of a page that rows share';

/** A row's pages, as the engine that decides on them wants them. */
export interface FollowedPrefix extends RowPrefix {
  /** Numbers of its own first pages. */
  readonly own: readonly number[];
}

/**
 * The pages that rows of a run have in common where another engine decides on that: it gives them numbers, and this one has a page of its
 * own for each. One lives until it is said to be free and nobody holds or copies it here. What is said is not believed: whatever does not
 * fit is an error, and a row sees no page, and no part of one, that this run has not computed.
 */
export class FollowedPages implements PrefixPages {
  private readonly numbered = new Map<number, PrefixNode>();

  constructor(
    private readonly pageTokens: number,
    private readonly give: (page: number) => void,
  ) {}

  /**
   * What a row shares. Nothing is taken yet.
   *
   * @param tokens of its prompt, as far as they are computed
   * @throws PeerError naming what was found and what was expected
   */
  prefixOf({ pages, copy, own }: SharedPrefix, tokens: readonly number[]): FollowedPrefix {
    const { pageTokens } = this;
    const start = pages.length * pageTokens;
    const shared = pages.map((number, index) => this.found('.pages', number, index * pageTokens, pageTokens));
    const begin = copy?.position ?? start;
    if (begin >= tokens.length) throw wrong('', `${begin} tokens that others have computed`, `fewer than the row's ${tokens.length}`);
    if (copy && (begin <= start || begin >= start + pageTokens)) {
      throw wrong('.copy.position', begin, `one within the page of position ${start}, behind its first`);
    }
    const source = copy && this.found('.copy.page', copy.page, start, begin - start);
    const most = Math.ceil(tokens.length / pageTokens) - pages.length;
    if (own.length > most) throw wrong('.own', `${own.length} pages`, `at most the ${most} of the row's prompt that are its own`);
    if (new Set(own).size < own.length) throw wrong('.own', 'a number twice', 'each once');
    const nodes = own.map((number, index) => {
      if (this.numbered.has(number)) throw wrong('.own', `${number}, which is another page's`, 'a number that none has');
      const first = start + index * pageTokens;
      return nodeOf(undefined, 'memory', first, tokens.slice(first, first + pageTokens));
    });
    return { tree: this, path: { tokens, nodes: [...shared, ...nodes] }, match: { pages: pages.length, source, tokens: begin }, own };
  }

  /** The row has its pages: later ones may share them. */
  opened({ path: { nodes }, match: { pages }, own }: FollowedPrefix): void {
    for (const node of nodes) node.known++;
    for (const [index, number] of own.entries()) {
      const node = nodes[pages + index];
      if (!node) continue;
      node.kept = 1;
      this.numbered.set(number, node);
    }
  }

  /** The row is over; it may hold its pages for some time yet. */
  closed({ path: { nodes } }: FollowedPrefix): void {
    for (const node of nodes) node.known--;
  }

  /** No row will share the page any more. @throws PeerError */
  free(number: number): void {
    const node = this.numbered.get(number);
    if (!node) throw new PeerError(`free.page: found ${number}, expected ${NUMBER}`);
    if (node.known > 0) throw new PeerError(`free.page: found ${number}, which ${node.known} rows hold, expected one that none holds`);
    this.numbered.delete(number);
    node.kept = 0;
    this.giveIfUnused(node);
  }

  /** The run is over: no row holds anything. */
  close(): void {
    for (const node of this.numbered.values()) {
      node.kept = 0;
      this.giveIfUnused(node);
    }
    this.numbered.clear();
  }

  hold(node: PrefixNode, page?: number, writer?: PageWriter): void {
    node.holders++;
    if (page === undefined) return;
    node.page = page;
    node.writer = writer;
  }

  release(node: PrefixNode, row: PageWriter): void {
    // What a row has left out stays so.
    if (node.writer === row) node.writer = computed(node) < node.tokens.length ? { next: row.next } : undefined;
    node.holders--;
    this.giveIfUnused(node);
  }

  read(node: PrefixNode): void {
    node.readers++;
  }

  hasRead(node: PrefixNode): void {
    node.readers--;
    this.giveIfUnused(node);
  }

  leave(): void {
    // Which rows are known is said by those who open and close them.
  }

  /** A page from a position on, of which so many tokens have been computed. */
  private found(field: string, number: number, start: number, tokens: number): PrefixNode {
    const node = this.numbered.get(number);
    if (!node) throw wrong(field, number, NUMBER);
    if (node.start !== start) throw wrong(field, `${number}, which begins at position ${node.start}`, `one that begins at ${start}`);
    const there = computed(node);
    if (there < tokens) throw wrong(field, `${number}, of which ${there} tokens have been computed`, `${tokens}`);
    return node;
  }

  private giveIfUnused(node: PrefixNode): void {
    if (node.page === undefined || node.kept > 0 || node.holders > 0 || node.readers > 0) return;
    this.give(node.page);
    node.page = undefined;
  }
}

function wrong(field: string, found: string | number, expected: string): PeerError {
  return new PeerError(`open.sharing${field}: found ${found}, expected ${expected}`);
}
