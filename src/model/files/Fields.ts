import { isObject } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { foundInFile } from '../../arguments/found.js';
import { TOKENIZER_LIMITS } from './limits.js';

/** A JSON object as parsed: nothing about its members is known yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Reads members of untrusted JSON or metadata; each failure names the file, the field, what was found and what was
 * expected.
 */
export class Fields {
  constructor(readonly file: string) {}

  refuse(field: string, found: string, expected: string, cause?: unknown): never {
    throw new ModelFileError(this.file, field, found, expected, cause === undefined ? undefined : { cause });
  }

  object(field: string, value: unknown): JsonObject {
    if (!isObject(value)) this.refuse(field, foundInFile(value), 'an object');
    return value;
  }

  /** Refuses what is more than a limit. */
  atMost(field: string, count: number, most: number, what: string): void {
    if (count > most) this.refuse(field, `${count} ${what}`, `at most ${most}`);
  }

  array(field: string, value: unknown): readonly unknown[] {
    if (!Array.isArray(value)) this.refuse(field, foundInFile(value), 'a list');
    return value as readonly unknown[];
  }

  /** Like `array`, for GGUF metadata, where lists of numbers are typed arrays. */
  numbers(field: string, value: unknown): ArrayLike<number> {
    if (
      ArrayBuffer.isView(value) &&
      !(value instanceof DataView) &&
      !(value instanceof BigInt64Array) &&
      !(value instanceof BigUint64Array)
    ) {
      return value as unknown as ArrayLike<number>;
    }
    const list = this.array(field, value);
    list.forEach((item, i) => {
      if (typeof item !== 'number') this.refuse(`${field}[${i}]`, foundInFile(item), 'a number');
    });
    return list as readonly number[];
  }

  string(field: string, value: unknown): string {
    if (typeof value !== 'string') this.refuse(field, foundInFile(value), 'text');
    return value;
  }

  /** The text of a token. */
  tokenText(field: string, value: unknown): string {
    const text = this.string(field, value);
    this.atMost(field, text.length, TOKENIZER_LIMITS.tokenUnits, 'UTF-16 units');
    return text;
  }

  /** Reads a text that stands in for a match, or is put before a text. */
  replacement(field: string, value: unknown): string {
    const text = this.string(field, value);
    this.atMost(field, text.length, TOKENIZER_LIMITS.replacementUnits, 'UTF-16 units');
    return text;
  }

  /** One more step of a chain of them, after `before` others and inside `depth` sequences. */
  checkStep(field: string, before: number, depth: number): void {
    if (depth > TOKENIZER_LIMITS.nesting)
      this.refuse(field, 'sequences nested more deeply', `at most ${TOKENIZER_LIMITS.nesting} levels`);
    if (before >= TOKENIZER_LIMITS.steps) this.refuse(field, 'more steps', `at most ${TOKENIZER_LIMITS.steps}`);
  }

  /** A flag; absent or null means `otherwise`. */
  flag(field: string, value: unknown, otherwise: boolean): boolean {
    if (value === undefined || value === null) return otherwise;
    if (typeof value !== 'boolean') this.refuse(field, foundInFile(value), 'true or false');
    return value;
  }

  /** Text that may be absent or null. */
  optionalString(field: string, value: unknown): string | undefined {
    return value === undefined || value === null ? undefined : this.string(field, value);
  }

  tokenId(field: string, value: unknown): number {
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > TOKENIZER_LIMITS.tokenId) {
      this.refuse(field, foundInFile(value), `a token id from 0 to ${TOKENIZER_LIMITS.tokenId}`);
    }
    return value;
  }
}
