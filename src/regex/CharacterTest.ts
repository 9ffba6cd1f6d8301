const PAGE = 256;
const UNKNOWN = 0;
const YES = 1;
const NO = 2;

/**
 * Tells whether a character is of a set, in ECMAScript's own sense: V8 says it, of one character at a time, which is
 * always quick, and what it said is kept.
 */
export class CharacterTest {
  readonly #regex: RegExp;
  readonly #pages: (Uint8Array | undefined)[] = [];

  /** @param source a pattern of one character, such as `\p{L}` or `[a-z]` @param flags with `u` */
  constructor(source: string, flags: string) {
    this.#regex = new RegExp(`^${source}$`, flags.replace('m', ''));
  }

  has(code: number): boolean {
    if (code >= 0x10000) return this.#regex.test(String.fromCodePoint(code));
    const page = (this.#pages[code >> 8] ??= new Uint8Array(PAGE));
    const known = page[code & 255];
    if (known !== UNKNOWN) return known === YES;
    const found = this.#regex.test(String.fromCharCode(code));
    page[code & 255] = found ? YES : NO;
    return found;
  }
}
