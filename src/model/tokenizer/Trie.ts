import { PairTable } from './PairTable.js';

/**
 * A tree of UTF-16 units. Nodes are numbers from 0, the root, up; the edges stand in one flat table, some 50 bytes
 * each.
 */
export class Trie {
  readonly #edges: PairTable;
  #nodes = 1;

  /** @param edges the most that will be made: the sum of what is put in, in units */
  constructor(edges: number) {
    this.#edges = new PairTable(edges);
  }

  /** How many nodes there are. */
  get nodes(): number {
    return this.#nodes;
  }

  /** @returns the node that `unit` leads to, -1 if none */
  child(node: number, unit: number): number {
    return this.#edges.get(node, unit);
  }

  /** Likewise; makes it where there is none. */
  grow(node: number, unit: number): number {
    const known = this.#edges.get(node, unit);
    if (known >= 0) return known;
    this.#edges.set(node, unit, this.#nodes);
    return this.#nodes++;
  }
}
