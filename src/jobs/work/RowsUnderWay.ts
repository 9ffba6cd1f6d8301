import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { isWithin, wholeRange } from '../../arguments/NumberRange.js';
import { fileFailure } from '../../files/fileErrors.js';
import type { RowFailure } from '../../Row.js';
import type { RowWatch } from '../RowWatch.js';

/** Two numbers: how many rows of the input have gone to the engine or before those that have, and the row alone. */
const BYTES = 16;
const NOBODY = -1;
const ROWS = wholeRange(0);

interface Mark {
  /** Rows of the input up to the last one that went to the engine. */
  readonly sent: number;
  /** The row that was there by itself, or NOBODY. */
  readonly alone: number;
}

/**
 * Which rows an attempt at a shard has under way, noted in a file that outlives its process. Rows that an attempt took
 * with it when its worker ended, or its engine failed, go one by one in the next one; a row at which that ends, too, is
 * an error from then on, so that the shard's other rows are answered. The file is removed by an attempt that ends in
 * order.
 */
export class RowsUnderWay implements RowWatch, Disposable {
  readonly #bytes = Buffer.alloc(BYTES);
  readonly #file: number;
  #mark: Mark;

  private constructor(
    private readonly path: string,
    /** Rows before this one may have ended an attempt. */
    readonly suspected: number,
    /** Rows at which an attempt has ended that had no other. */
    private readonly parted: ReadonlySet<number>,
  ) {
    this.#mark = { sent: suspected, alone: NOBODY };
    try {
      this.#file = openSync(path, 'w');
    } catch (error) {
      throw fileFailure(path, 'written', error);
    }
  }

  /**
   * @param path the attempt's own file
   * @param earlier those of other attempts, as far as they are there
   * @throws JobFileError
   */
  static begin(path: string, earlier: readonly string[]): RowsUnderWay {
    const marks = earlier.flatMap((other) => markIn(other) ?? []);
    return new RowsUnderWay(
      path,
      Math.max(0, ...marks.map(({ sent }) => sent)),
      new Set(marks.map(({ alone }) => alone).filter((row) => row !== NOBODY)),
    );
  }

  /** @throws JobFileError */
  sends(index: number): RowFailure | undefined {
    if (this.parted.has(index))
      return {
        code: 'crash',
        message: `row ${index + 1} of the input: found two workers ended, or failed, while they had it, the second one with no other row: it is left out, so that its shard's other rows are answered`,
      };
    this.#note({ sent: Math.max(this.#mark.sent, index + 1), alone: index < this.suspected ? index : NOBODY });
    return undefined;
  }

  /** The attempt has ended in order: none of its rows is suspected. */
  clear(): void {
    this[Symbol.dispose]();
    rmSync(this.path, { force: true });
  }

  #closed = false;

  [Symbol.dispose](): void {
    if (!this.#closed) closeSync(this.#file);
    this.#closed = true;
  }

  #note(mark: Mark): void {
    this.#mark = mark;
    this.#bytes.writeDoubleLE(mark.sent, 0);
    this.#bytes.writeDoubleLE(mark.alone, 8);
    try {
      // At once, and not on its way to the disk: it is the process that may end, not the machine.
      writeSync(this.#file, this.#bytes, 0, BYTES, 0);
    } catch (error) {
      throw fileFailure(this.path, 'written', error);
    }
  }
}

/** Undefined where there is none, or something else. */
function markIn(path: string): Mark | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch {
    return undefined;
  }
  if (bytes.length !== BYTES) return undefined;
  const [sent, alone] = [bytes.readDoubleLE(0), bytes.readDoubleLE(8)];
  return isWithin(sent, ROWS) && (alone === NOBODY || isWithin(alone, ROWS)) ? { sent, alone } : undefined;
}
