import { PeerError } from '../../errors/engineErrors.js';
import type { PrefixPages, RowPrefix } from './RowPages.js';
import { computedUpTo, isUsed, type PageWriter, type SharedPage } from './SharedPage.js';
import type { SharedPrefix } from './PageNumbers.js';

const NUMBER = 'the number of a page that rows share';

/** A page that the engine that decides has given a number, or is about to. */
interface FollowedPage extends SharedPage {
  further: number[];
  readonly start: number;
  /** Rows that are open and have it in their tables. */
  open: number;
  /** Its number has not been said to be free. */
  numbered: boolean;
}

/** A row's pages, as the engine that decides on them wants them. */
export interface FollowedPrefix extends RowPrefix {
  readonly nodes: readonly FollowedPage[];
  /** Numbers of its own first pages. */
  readonly own: readonly number[];
}

/**
 * The pages that rows of a run have in common where another engine decides on that: it gives them numbers, and this one
 * has a page of its own for each. One lives until it is said to be free and nobody holds or copies it here. What is
 * said is not believed: whatever does not fit is an error, and a row sees no page, and no part of one, that this run
 * has not computed.
 */
export class FollowedPages implements PrefixPages {
  private readonly numbered = new Map<number, FollowedPage>();
  /** Sums over all pages. */
  private holders = 0;
  private readers = 0;

  constructor(
    private readonly pageTokens: number,
    private readonly give: (page: number) => void,
  ) {}

  /**
   * Finds what a row shares. Nothing is taken yet.
   *
   * @param tokens of its prompt, as far as they are computed
   * @throws PeerError naming what was found and what was expected
   */
  prefixOf({ pages, copy, own }: SharedPrefix, tokens: readonly number[]): FollowedPrefix {
    const { pageTokens } = this;
    const start = pages.length * pageTokens;
    const shared = pages.map((number, index) => this.found('.pages', number, index * pageTokens, pageTokens));
    const begin = copy?.position ?? start;
    if (begin >= tokens.length)
      throw wrong('', `${begin} tokens that others have computed`, `fewer than the row's ${tokens.length}`);
    if (copy && (begin <= start || begin >= start + pageTokens)) {
      throw wrong('.copy.position', begin, `one within the page of position ${start}, after its first`);
    }
    const source = copy && this.found('.copy.page', copy.page, start, begin - start);
    const most = Math.ceil(tokens.length / pageTokens) - pages.length;
    if (own.length > most)
      throw wrong('.own', `${own.length} pages`, `at most the ${most} of the row's prompt that are its own`);
    if (new Set(own).size < own.length) throw wrong('.own', 'a number twice', 'each once');
    const nodes = own.map((number, index): FollowedPage => {
      if (this.numbered.has(number))
        throw wrong('.own', `${number}, which is another page's`, 'a number that none has');
      const first = start + index * pageTokens;
      const end = Math.min(tokens.length, first + pageTokens);
      return {
        start: first,
        end,
        page: undefined,
        further: [],
        writer: undefined,
        holders: 0,
        readers: 0,
        open: 0,
        numbered: false,
      };
    });
    return { tree: this, nodes: [...shared, ...nodes], match: { pages: pages.length, source, tokens: begin }, own };
  }

  /** The row has its pages: later ones may share them. */
  opened({ nodes, match: { pages }, own }: FollowedPrefix): void {
    for (const node of nodes) node.open++;
    for (const [index, number] of own.entries()) {
      const node = nodes[pages + index];
      if (!node) continue;
      node.numbered = true;
      this.numbered.set(number, node);
    }
  }

  /** The row is over; it may hold its pages for some time yet. */
  closed({ nodes }: FollowedPrefix): void {
    for (const node of nodes) node.open--;
  }

  /** No row will share the page any more. @throws PeerError */
  free(number: number): void {
    const node = this.numbered.get(number);
    if (!node) throw new PeerError(`free.page: found ${number}, expected ${NUMBER}`);
    if (node.open > 0)
      throw new PeerError(`free.page: found ${number}, which ${node.open} rows hold, expected one that none holds`);
    this.numbered.delete(number);
    node.numbered = false;
    this.giveIfUnused(node);
  }

  /** The run is over: no row holds anything. */
  close(): void {
    for (const node of this.numbered.values()) {
      node.numbered = false;
      this.giveIfUnused(node);
    }
    this.numbered.clear();
  }

  hold(node: FollowedPage, pages?: readonly number[], writer?: PageWriter): void {
    this.use(node, 1, 0);
    if (pages === undefined) return;
    [node.page, ...node.further] = pages;
    node.writer = writer;
  }

  release(node: FollowedPage): void {
    this.use(node, -1, 0);
  }

  read(node: FollowedPage): void {
    this.use(node, 0, 1);
  }

  hasRead(node: FollowedPage): void {
    this.use(node, 0, -1);
  }

  /** Counts what is in use: nothing, once the run is over. */
  census(): { readonly holders: number; readonly readers: number; readonly pages: number } {
    return { holders: this.holders, readers: this.readers, pages: this.numbered.size };
  }

  /** A page from a position on, of which so many tokens have been computed. */
  private found(field: string, number: number, start: number, tokens: number): FollowedPage {
    const node = this.numbered.get(number);
    if (!node) throw wrong(field, number, NUMBER);
    if (node.start !== start)
      throw wrong(field, `${number}, which begins at position ${node.start}`, `one that begins at ${start}`);
    const there = Math.max(0, computedUpTo(node) - start);
    if (there < tokens) throw wrong(field, `${number}, of which ${there} tokens have been computed`, `${tokens}`);
    return node;
  }

  private use(node: FollowedPage, holders: number, readers: number): void {
    node.holders += holders;
    node.readers += readers;
    this.holders += holders;
    this.readers += readers;
    if (holders + readers < 0) this.giveIfUnused(node);
  }

  private giveIfUnused(node: FollowedPage): void {
    if (node.page === undefined || node.numbered || isUsed(node)) return;
    for (const page of [node.page, ...node.further]) this.give(page);
    node.page = undefined;
    node.further = [];
  }
}

function wrong(field: string, found: string | number, expected: string): PeerError {
  return new PeerError(`open.sharing${field}: found ${found}, expected ${expected}`);
}
