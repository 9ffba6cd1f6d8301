import type { Work } from '../../collections/drained.js';
import { heldBytes, keyBytes, memberBytes } from '../../rows/heldBytes.js';

/** Values take more memory than they may. */
class TooManyBytes extends Error {}

/** Bytes of a list or an object beside what `memberBytes` counts: its header, and that of its members. */
const HEADER_BYTES = 48;

/** Members that are made between two moments at which others may have their turn. */
const SLICE = 2 ** 10;

/** Counts, while a row's values are made, what they take in memory, and tells when others should have their turn. */
export class ValueTally {
  #bytes = 0;
  #made = 0;
  #due = SLICE;

  /** @param most bytes that they may take */
  constructor(readonly most: number) {}

  /** Counts a member of a list or an object, without what is in it where that is one itself. @throws TooManyBytes */
  member<T>(value: T): T {
    this.#made += 1;
    this.take(memberBytes(value) + (typeof value === 'object' && value !== null ? HEADER_BYTES : 0));
    return value;
  }

  /** Counts a member with all that is in it, where that was made in one go. @throws TooManyBytes */
  whole<T>(value: T): T {
    this.#made += 1;
    this.take(typeof value === 'object' ? heldBytes(value, this.most) : memberBytes(value));
    return value;
  }

  /** Counts the name of a member. @throws TooManyBytes */
  name(key: string): string {
    this.take(keyBytes(key));
    return key;
  }

  /** Looks, before a list of so many is made, whether there is room for it. @throws TooManyBytes */
  expect(count: number): void {
    if (this.#bytes + count * memberBytes(undefined) >= this.most) throw new TooManyBytes();
  }

  /** True once for each slice. */
  get due(): boolean {
    if (this.#made < this.#due) return false;
    this.#due = this.#made + SLICE;
    return true;
  }

  /** Counts bytes that are counted elsewhere. @throws TooManyBytes */
  take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes >= this.most) throw new TooManyBytes();
  }
}

/** Makes values while they are counted; undefined where they take more bytes than `most`. */
export function* tallied<T>(most: number, make: (tally: ValueTally) => Work<T>): Work<T | undefined> {
  try {
    return yield* make(new ValueTally(most));
  } catch (error) {
    if (error instanceof TooManyBytes) return undefined;
    throw error;
  }
}
