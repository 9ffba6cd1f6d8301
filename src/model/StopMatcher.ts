import { StopStrings } from './StopStrings.js';

/** Result that a push may give to the reader. */
export interface StopMatch {
  /** Text that can no longer be part of a stop string. */
  readonly text: string;
  /** A stop string has been found; it begins where `text` ends. Nothing may be pushed afterwards. */
  readonly stopped: boolean;
}

/**
 * Ends a stream of text at the first occurrence of any stop string, wherever the pieces are cut. The first occurrence
 * is the one that begins earliest. Text is held back only while it could be the beginning of one, and each character is
 * looked at once, however many stop strings there are.
 */
export class StopMatcher {
  #state = 0;
  #held = '';
  /** Where in `#held` the earliest occurrence that is known begins; -1: none. */
  #match = -1;

  private readonly stops: StopStrings;

  /** @param stops what is shared by all who look for the same strings; or these, of which empty ones are ignored */
  constructor(stops: StopStrings | readonly string[]) {
    this.stops = stops instanceof StopStrings ? stops : new StopStrings(stops);
  }

  push(piece: string): StopMatch {
    const before = this.#held.length;
    this.#held += piece;
    for (let i = 0; i < piece.length; i++) {
      this.#state = this.stops.next(this.#state, piece.charCodeAt(i));
      const end = before + i + 1;
      const found = this.stops.foundAt(this.#state);
      if (found > 0) {
        const start = end - found;
        if (this.#match < 0 || start < this.#match) this.#match = start;
      }
      // What is still open begins here. A match is the first if nothing that began before it can still become one.
      if (this.#match >= 0 && end - this.stops.depthOf(this.#state) >= this.#match)
        return { text: this.#stop(), stopped: true };
    }
    if (this.#match >= 0) return { text: '', stopped: false };
    const safe = this.#held.length - this.stops.depthOf(this.#state);
    const text = this.#held.slice(0, safe);
    this.#held = this.#held.slice(safe);
    return { text, stopped: false };
  }

  /**
   * The text has ended: a stop string that began after an unfinished one counts now, and what was held back is
   * released.
   */
  end(): StopMatch {
    if (this.#match >= 0) return { text: this.#stop(), stopped: true };
    const text = this.#held;
    this.#held = '';
    this.#state = 0;
    return { text, stopped: false };
  }

  #stop(): string {
    const text = this.#held.slice(0, this.#match);
    this.#held = '';
    this.#match = -1;
    this.#state = 0;
    return text;
  }
}
