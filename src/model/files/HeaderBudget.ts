import { ModelFileError } from '../../errors/ModelFileError.js';
import { formatBytes } from '../../units.js';
import { HEADER_LIMITS } from './limits.js';

/**
 * Counts roughly what a header's values take in memory, before they are made, and ends reading when that is out of
 * proportion to the file: a few bytes of a file can ask for an object that takes hundreds.
 */
export class HeaderBudget {
  readonly #limit: number;
  #used = 0;

  constructor(
    readonly path: string,
    fileBytes: number,
  ) {
    this.#limit = Math.min(HEADER_LIMITS.memoryBytes, 2 ** 20 + 16 * fileBytes);
  }

  /** @throws ModelFileError if `bytes` more would exceed the budget */
  charge(bytes: number): void {
    this.#used += bytes;
    if (this.#used > this.#limit) {
      throw new ModelFileError(
        this.path,
        'header',
        `values that take more than ${formatBytes(this.#limit)} of memory`,
        'a header in proportion to its file',
      );
    }
  }
}
