import { ModelFileError } from '../../errors/ModelFileError.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { printable } from '../files/printable.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Reads the JSON of a safetensors header token by token. JSON.parse would do for honest files; but of two tensors with
 * one name it keeps the second and says nothing, and a header of 100 MB of `{},{},…` makes it take 2 GB of heap before
 * anyone can look at the result.
 */
export class HeaderScanner {
  #at = 0;

  /** @param bytes UTF-8, checked by the caller */
  constructor(
    readonly path: string,
    readonly bytes: Buffer,
  ) {}

  /** Reads one character of JSON's grammar, blanks before it skipped. */
  expect(character: string): void {
    if (!this.accept(character)) this.fail(`${printable(character)} at this place`);
  }

  /** Reads the character if it is the next one. */
  accept(character: string): boolean {
    this.#skipBlanks();
    if (this.bytes[this.#at] !== character.charCodeAt(0)) return false;
    this.#at++;
    return true;
  }

  /** Reads a string of at most `limit` bytes. */
  string(limit: number = HEADER_LIMITS.nameBytes): string {
    this.expect('"');
    const start = this.#at;
    let escaped = false;
    for (; this.bytes[this.#at] !== QUOTE; this.#at++) {
      const byte = this.bytes[this.#at];
      if (byte === undefined || byte < 0x20) return this.fail('a string that ends in a quotation mark');
      if (byte === BACKSLASH) {
        escaped = true;
        this.#at++;
      }
      if (this.#at - start > limit) return this.fail(`a string of at most ${limit} bytes`);
    }
    const text = this.bytes.toString('utf8', start, this.#at);
    this.#at++;
    return escaped ? this.#unescape(text) : text;
  }

  /** Reads a whole number from 0 to 2^53 - 1. */
  integer(): number {
    this.#skipBlanks();
    const start = this.#at;
    while (isDigit(this.bytes[this.#at]) && this.#at - start < 17) this.#at++;
    const text = this.bytes.toString('latin1', start, this.#at);
    const value = Number(text);
    if (!/^(0|[1-9]\d*)$/.test(text) || !Number.isSafeInteger(value)) {
      this.#at = start;
      return this.fail('a whole number from 0 to 2^53 - 1');
    }
    return value;
  }

  /** Reads `open item, item, … close`, calling `item` to read each. */
  list(open: string, close: string, item: () => void): void {
    this.expect(open);
    if (this.accept(close)) return;
    do item();
    while (this.accept(','));
    this.expect(close);
  }

  /** Nothing but blanks may be left. */
  end(): void {
    this.#skipBlanks();
    if (this.#at !== this.bytes.length) this.fail('the end of the header');
  }

  fail(expected: string): never {
    const found =
      this.#at < this.bytes.length
        ? `${printable(this.bytes.toString('utf8', this.#at, this.#at + 40), 40)} at byte ${this.#at}`
        : 'its end';
    throw new ModelFileError(this.path, 'header', found, expected);
  }

  #skipBlanks(): void {
    for (;;) {
      const byte = this.bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at++;
    }
  }

  #unescape(text: string): string {
    try {
      return String(JSON.parse(`"${text}"`));
    } catch {
      return this.fail('a string whose escapes are those of JSON');
    }
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}
