import * as z from 'zod';
import { INVISIBLE } from '../arguments/found.js';

/** A name in a file that anybody may have written: it goes to terminals and pages, so nothing in it acts on them. */
export function nameSchema(mostCharacters: number): z.ZodType<string> {
  return z.string().refine((name) => name.length > 0 && name.length <= mostCharacters && name.search(INVISIBLE) < 0, {
    error: `expected a line of 1 to ${mostCharacters} characters, none of them a control character`,
  });
}
