/** Something that a model's file brings has gone beyond a limit; whoever asked for the work says what becomes of it. */
export class LimitError extends Error {
  /** @param field of the model's file @param found what it did, in words @param expected the limit, in words */
  constructor(
    readonly field: string,
    readonly found: string,
    readonly expected: string,
  ) {
    super(`${field}: found ${found}, expected ${expected}`);
  }
}
