import { RecordTable } from '../../collections/RecordTable.js';

/**
 * Rows in one block: few, so that a damaged output with scattered indexes cannot ask for much, nor samples of few
 * rows.
 */
const BLOCK_ROWS = 16;
/** Blocks that are allocated together. */
const BLOCKS = 1024;

/**
 * Which results of a job are done, by row and sample, and a 32-bit hash of each one's id, to check that the input still
 * has the same row there. Five to six bytes a result, in any order of arrival; scattered ones, or those of many samples
 * of few rows, up to a hundred.
 */
export class DoneRows {
  /** By rows and sample, 0 for results that say none: the number of the block that holds their hashes, from 1. */
  readonly #blocks = new RecordTable(3, 4);
  readonly #hashes: Uint32Array[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** False if the result was there. */
  add(index: number, id: string | number, sample?: number): boolean {
    const at = this.#locate(index, sample);
    let block = this.#blocks.size;
    if (this.#blocks.isAt(at)) block = (this.#blocks.words[at + 3] ?? 0) - 1;
    else {
      this.#blocks.put(at, ...keyOf(index, sample), block + 1);
      if (block % BLOCKS === 0) this.#hashes.push(new Uint32Array(BLOCKS * BLOCK_ROWS));
    }
    const hashes = this.#hashes[Math.floor(block / BLOCKS)];
    const place = (block % BLOCKS) * BLOCK_ROWS + (index % BLOCK_ROWS);
    if (hashes?.[place] !== 0) return false;
    hashes[place] = hashId(id);
    this.#size += 1;
    return true;
  }

  /** Tells whether the result is done, and if so, whether its row had this id. */
  check(index: number, id: string | number, sample?: number): 'open' | 'done' | 'other-id' {
    if (this.#size === 0) return 'open';
    const at = this.#locate(index, sample);
    if (!this.#blocks.isAt(at)) return 'open';
    const block = (this.#blocks.words[at + 3] ?? 0) - 1;
    const place = (block % BLOCKS) * BLOCK_ROWS + (index % BLOCK_ROWS);
    const hash = this.#hashes[Math.floor(block / BLOCKS)]?.[place] ?? 0;
    return hash === 0 ? 'open' : hash === hashId(id) ? 'done' : 'other-id';
  }

  #locate(index: number, sample: number | undefined): number {
    return this.#blocks.locate(...keyOf(index, sample));
  }
}

function keyOf(index: number, sample = -1): [first: number, second: number, third: number] {
  const rows = Math.floor(index / BLOCK_ROWS);
  return [rows >>> 0, Math.floor(rows / 2 ** 32), sample + 1];
}

/** FNV-1a over the id's kind and characters; never 0, which stands for an open row. */
function hashId(id: string | number): number {
  const text = JSON.stringify(id);
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0 || 1;
}
