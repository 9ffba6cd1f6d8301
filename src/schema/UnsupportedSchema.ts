import { ResponseFormatError } from '../errors/RowError.js';

/** A schema that cannot be held to, with the JSON pointer of the place: nothing of it is left out in silence. */
export class UnsupportedSchema extends ResponseFormatError {
  /**
   * @param keyword that cannot be enforced, as the documents list it; undefined where the schema is none, or too large
   */
  constructor(
    readonly pointer: string,
    keyword: string | undefined,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`schema, at ${pointer === '' ? 'its root' : pointer}: ${problem}`, pointer, keyword, options);
  }
}
