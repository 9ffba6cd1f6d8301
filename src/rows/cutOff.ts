import type { RowFailure } from '../Row.js';

/** Names the limit that ended an answer before it was what its format asks for, where its number of tokens has. */
export function byLimit(tokens: number): string {
  return `its limit of ${tokens} tokens`;
}

/** The error of such an answer. @param by what has ended it */
export function cutOff(by: string): RowFailure {
  return {
    code: 'schema',
    message: `the answer was cut off by ${by} before it came to its end, as its responseFormat has it`,
  };
}

/** Tells whether an answer has only become too long: what is there of it is its beginning. */
export function isCutByLimit({ code, message }: RowFailure): boolean {
  return code === 'schema' && /^the answer (?:does not [a-zA-Z ]+: it )?was cut off by its limit of /.test(message);
}
