/**
 * Text of one token on its way through the decoder; `verbatim` marks added tokens, whose text is not in any alphabet.
 */
export interface Part {
  readonly text: string;
  readonly verbatim: boolean;
}

type Change = (text: string, first: boolean) => string;

const utf8 = new TextEncoder();

/**
 * The steps of a decoder as they are for one token by itself, as long as that is possible: changes of its text, then
 * what makes bytes of it, then what is dropped at the very beginning.
 */
export class TokenBytes {
  readonly #changes: Change[] = [];
  #toBytes: ((part: Part) => Uint8Array) | undefined;
  #dropped: Uint8Array | undefined;
  #depends = false;

  /** The bytes that a token comes to; undefined where they depend on its neighbours. */
  get bytes(): ((part: Part, first: boolean) => Uint8Array) | undefined {
    if (this.#depends) return undefined;
    const toBytes = this.#toBytes ?? (({ text }: Part) => utf8.encode(text));
    return ({ text, verbatim }, first) => {
      const bytes = toBytes({
        text: this.#changes.reduce((changed, change) => change(changed, first), text),
        verbatim,
      });
      const dropped = first ? this.#dropped : undefined;
      return dropped?.every((byte, at) => bytes[at] === byte) === true ? bytes.subarray(dropped.length) : bytes;
    };
  }

  /** A token's text becomes another one. */
  change(change: Change): void {
    // After bytes it would see what several tokens have come to.
    if (this.#toBytes || this.#dropped) this.depends();
    this.#changes.push(change);
  }

  /** A token becomes bytes. */
  last(toBytes: (part: Part) => Uint8Array): void {
    if (this.#toBytes || this.#dropped) this.depends();
    this.#toBytes = toBytes;
  }

  /** At the beginning of the whole text this is dropped, once: after it nothing is. */
  dropFirst(bytes: Uint8Array): void {
    if (this.#dropped) this.depends();
    this.#dropped = bytes;
  }

  /** There is a step that looks at more than one token. */
  depends(): void {
    this.#depends = true;
  }
}
