/** Rows in one block. Small (2 KiB), so that a damaged output with scattered indexes cannot ask for much. */
const BLOCK_ROWS = 512;

/**
 * Which results of a job are done, by row and sample, and a 32-bit hash of each one's id, to check that the input still
 * has the same row there. Four bytes a result, in any order of arrival.
 */
export class DoneRows {
  /** Those of results that say no sample first, then by sample. */
  readonly #blocks: (Map<number, Uint32Array> | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** False if the result was there. */
  add(index: number, id: string | number, sample?: number): boolean {
    const key = Math.floor(index / BLOCK_ROWS);
    const blocks = (this.#blocks[placeOf(sample)] ??= new Map<number, Uint32Array>());
    let block = blocks.get(key);
    if (block === undefined) {
      block = new Uint32Array(BLOCK_ROWS);
      blocks.set(key, block);
    }
    if (block[index % BLOCK_ROWS] !== 0) return false;
    block[index % BLOCK_ROWS] = hashId(id);
    this.#size += 1;
    return true;
  }

  /** Whether the result is done, and if so, whether its row had this id. */
  check(index: number, id: string | number, sample?: number): 'open' | 'done' | 'other-id' {
    const hash = this.#blocks[placeOf(sample)]?.get(Math.floor(index / BLOCK_ROWS))?.[index % BLOCK_ROWS] ?? 0;
    return hash === 0 ? 'open' : hash === hashId(id) ? 'done' : 'other-id';
  }
}

function placeOf(sample: number | undefined): number {
  return sample === undefined ? 0 : sample + 1;
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
