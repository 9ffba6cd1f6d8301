import { isObject } from './isObject.js';

/** The members of what may be anything, to take it apart and see which are there: what is no object has none. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}
