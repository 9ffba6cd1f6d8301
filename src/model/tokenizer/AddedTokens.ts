import type { Work } from '../../collections/drained.js';
import { PART_UNITS } from './parts.js';
import { Trie } from './Trie.js';

/** A token that is matched in the text as it stands, before any pre-tokenizer. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** A control token: left out of decoded text, and plain text where special tokens are not parsed. */
  readonly special: boolean;
  /** Matched in the normalized text. */
  readonly normalized: boolean;
  /** Matched only where no word character stands beside it. */
  readonly singleWord: boolean;
  /** Takes the blanks before it, or after it, with it. */
  readonly stripLeft: boolean;
  readonly stripRight: boolean;
}

/** A stretch of text: a token that was matched, or text between tokens. */
export type Section = { readonly token: AddedToken } | { readonly text: string; readonly start: number };

interface Entry {
  readonly token: AddedToken;
  readonly content: string;
}

/**
 * Finds added tokens in text: the leftmost match first, the longest of those that begin at one place. An automaton (Aho
 * and Corasick's, of the tokens written backwards) goes through the text once from its end, and knows at each unit the
 * longest token that begins there: time in proportion to the text, however long the tokens are.
 */
export class AddedTokens {
  readonly #trie: Trie;
  /** Where to go on from a node that has no child for a unit: the node of the longest beginning of what is left. */
  readonly #fallback: Int32Array;
  /** The longest token that is complete at a node, as an index of `#entries`; -1 if none is. */
  readonly #longest: Int32Array;
  readonly #entries: readonly Entry[];
  /** Which UTF-16 units end a token: most text is passed over by one look-up a unit. */
  readonly #ends = new Uint8Array(65_536);

  /**
   * @param contentOf what stands in the text for a token, if not its own content (normalized tokens); the first of
   * equal ones is found
   */
  constructor(tokens: readonly AddedToken[], contentOf: (token: AddedToken) => string = (token) => token.content) {
    this.#entries = tokens
      .map((token) => ({ token, content: contentOf(token) }))
      .filter(({ content }) => content !== '');
    const units = this.#entries.reduce((sum, { content }) => sum + content.length, 0);
    this.#trie = new Trie(units);
    this.#fallback = new Int32Array(units + 1);
    this.#longest = new Int32Array(units + 1).fill(-1);
    this.#build();
  }

  get size(): number {
    return this.#entries.length;
  }

  get tokens(): readonly AddedToken[] {
    return this.#entries.map(({ token }) => token);
  }

  /** Node by node of one depth, since a node falls back to one that is less deep. */
  #build(): void {
    const nodeOf = new Int32Array(this.#entries.length);
    let growing = this.#entries.map((_, index) => index);
    for (let depth = 0; growing.length > 0; depth++) {
      const still: number[] = [];
      for (const index of growing) {
        const { content } = this.#entries[index] ?? { content: '' };
        const unit = content.charCodeAt(content.length - 1 - depth);
        const parent = nodeOf[index] ?? 0;
        if (depth === 0) this.#ends[unit] = 1;
        const known = this.#trie.nodes;
        const node = this.#trie.grow(parent, unit);
        nodeOf[index] = node;
        if (node === known) {
          const fallback = depth === 0 ? 0 : this.#step(this.#fallback[parent] ?? 0, unit);
          this.#fallback[node] = fallback;
          this.#longest[node] = this.#longest[fallback] ?? -1;
        }
        if (depth + 1 < content.length) still.push(index);
      }
      for (const index of growing) {
        // Only now: tokens of this length that come first in the list go before others of the same text.
        const { content } = this.#entries[index] ?? { content: '' };
        const node = nodeOf[index] ?? 0;
        const before = this.#entries[this.#longest[node] ?? -1];
        if (content.length === depth + 1 && (before?.content.length ?? 0) < content.length) this.#longest[node] = index;
      }
      growing = still;
    }
  }

  /** The node of the longest beginning of a token (backwards) that ends with `unit`, read after `node`. */
  #step(node: number, unit: number): number {
    for (let at = node; ; at = this.#fallback[at] ?? 0) {
      const next = this.#trie.child(at, unit);
      if (next >= 0) return next;
      if (at === 0) return 0;
    }
  }

  /** @param accept tokens it refuses stay text, and so does what they cover */
  split(text: string, accept: (token: AddedToken) => boolean): Section[] {
    const scan = newScan(text, accept);
    this.#match(scan, 0);
    this.#cut(scan, 0);
    return scan.sections;
  }

  /** The same, stopping on its way. */
  *splitInParts(text: string, accept: (token: AddedToken) => boolean): Work<Section[]> {
    const scan = newScan(text, accept);
    // Most units take a nanosecond.
    for (let to = text.length; to > 0; yield) this.#match(scan, (to = Math.max(0, to - 8 * PART_UNITS)));
    for (let to = scan.starts.length; to > 0; yield) this.#cut(scan, (to = Math.max(0, to - PART_UNITS)));
    if (scan.done === 0 && scan.sections.length === 0) this.#cut(scan, 0);
    return scan.sections;
  }

  /** Makes sections of the matches from that one on; the last ones come first in the text. */
  #cut(scan: Scan, to: number): void {
    const { text, accept, starts, found, sections } = scan;
    let { done, at } = scan;
    let i = scan.cut;
    if (i < 0) i = starts.length;
    while (--i >= to) {
      let start = starts[i] ?? 0;
      const entry = this.#entries[found[i] ?? -1];
      if (start < at || entry === undefined) continue;
      const { token, content } = entry;
      let end = start + content.length;
      at = end;
      if (!accept(token) || (token.singleWord && (endsInWord(text, start) || beginsWithWord(text, end)))) continue;
      if (token.stripLeft) while (start > done && isBlank(text, start - 1)) start--;
      if (token.stripRight) while (end < text.length && isBlank(text, end)) end++;
      if (start > done) sections.push({ text: text.slice(done, start), start: done });
      sections.push({ token });
      done = end;
      at = end;
    }
    if (to === 0 && done < text.length) sections.push({ text: text.slice(done), start: done });
    [scan.done, scan.at, scan.cut] = [done, at, to];
  }

  /** Finds where tokens begin, down to that place, and which is the longest there. */
  #match(scan: Scan, to: number): void {
    const { text, starts, found } = scan;
    let { node } = scan;
    for (let at = scan.matched - 1; at >= to; at--) {
      const unit = text.charCodeAt(at);
      if (node === 0 && this.#ends[unit] === 0) continue;
      node = this.#step(node, unit);
      const longest = this.#longest[node] ?? -1;
      if (longest < 0) continue;
      starts.push(at);
      found.push(longest);
    }
    [scan.node, scan.matched] = [node, to];
  }
}

/** A text in which tokens are looked for, and how far that is. */
interface Scan {
  readonly text: string;
  readonly accept: (token: AddedToken) => boolean;
  /** Where tokens begin, the last place first, and which is the longest there. */
  readonly starts: number[];
  readonly found: number[];
  readonly sections: Section[];
  matched: number;
  node: number;
  /** Matches from this one on have been cut at; -1 at first. */
  cut: number;
  done: number;
  at: number;
}

function newScan(text: string, accept: (token: AddedToken) => boolean): Scan {
  return { text, accept, starts: [], found: [], sections: [], matched: text.length, node: 0, cut: -1, done: 0, at: 0 };
}

function isBlank(text: string, at: number): boolean {
  return /\p{White_Space}/u.test(text.charAt(at));
}

/** A character of a word to Rust's `\w`. */
const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

function endsInWord(text: string, end: number): boolean {
  if (end === 0) return false;
  const before = text.codePointAt(end - 2) ?? 0;
  return WORD.test(before > 0xffff ? String.fromCodePoint(before) : text.charAt(end - 1));
}

function beginsWithWord(text: string, start: number): boolean {
  const code = text.codePointAt(start);
  return code !== undefined && WORD.test(String.fromCodePoint(code));
}
