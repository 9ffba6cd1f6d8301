import type { SchemaElement } from 'hyparquet';
import { type PageBytes, TOO_LARGE, valueOf } from './PageBytes.js';
import { checkPlain, fixedValue, lengthAt } from './plainValues.js';

/**
 * The values that a column's pages name by number: as they stand in their page, and where those of any length begin.
 */
export class Dictionary {
  /** The offsets of values of any length. */
  #offsets: Uint32Array | undefined;
  readonly #value: ((nth: number) => unknown) | undefined;

  /** @throws Error in words */
  constructor(
    private readonly page: PageBytes,
    readonly length: number,
    { type, type_length: fixed }: SchemaElement,
  ) {
    if (type === undefined) throw new Error('a column has no type');
    if (length > 0) checkPlain(page.bytes.length, type, length, fixed);
    if (type === 'BYTE_ARRAY') this.restore();
    else this.#value = fixedValue(page, 0, type, fixed);
  }

  /** Bytes that it holds, its page among them. */
  get bytes(): number {
    return this.page.bytes.length + (this.#offsets?.byteLength ?? 0);
  }

  /** A value as it is stored: see `ValueCursor`. */
  at(place: number, room: number): unknown {
    if (this.#value) return this.#value(place);
    const [from = 0, to = 0] = [this.#offsets?.[place], this.#offsets?.[place + 1]];
    return to - from - 4 > room ? TOO_LARGE : valueOf(this.page.bytes, from + 4, to);
  }

  /** Makes of the page again what `drop` has let go of. */
  restore(): void {
    if (this.#value) return;
    const offsets = new Uint32Array(this.length + 1);
    for (let at = 0, offset = 0; at < this.length; at++) {
      offset += 4 + lengthAt(this.page, offset);
      offsets[at + 1] = offset;
    }
    this.#offsets = offsets;
  }

  drop(): void {
    this.page.drop();
    this.#offsets = undefined;
  }
}
