import { UsageError } from '../errors/UsageError.js';
import { found } from './found.js';
import { isObject } from './isObject.js';
import { didYouMean } from './nearest.js';

/**
 * Checks that an argument is an object (an array is none), and, where `known` is given, that it has no member of
 * another name: a misspelt option would otherwise be left out in silence. Members that are undefined are as good as
 * absent.
 *
 * @throws UsageError naming the argument, what was found and what was expected
 */
export function checkObject(name: string, value: unknown, known?: readonly string[]): asserts value is object {
  if (!isObject(value)) throw new UsageError(`${name}: found ${found(value)}, expected an object`);
  if (known === undefined) return;
  const names = new Set(known);
  const unknown = Object.keys(value).find((key) => !names.has(key) && value[key] !== undefined);
  if (unknown !== undefined)
    throw new UsageError(
      `${name}: found the unknown ${found(unknown)}, expected any of ${known.join(', ')}${didYouMean(unknown, known)}`,
    );
}

/** Says what a member has to be: throws UsageError if it is not. It is not asked where the member is undefined. */
export type Check = (name: string, value: unknown) => void;

/**
 * Checks an argument that is an object, each member by the check of its name; members of other names are refused, those
 * that are undefined are as good as absent. Where the checks are a `Record<keyof Options, Check>`, an option that is
 * added without its check does not compile.
 *
 * @param within goes before a member's name in messages: nothing for options, which have no other name
 * @throws UsageError naming the member, what was found and what was expected
 */
export function checkMembers(
  name: string,
  value: unknown,
  checks: Readonly<Record<string, Check>>,
  within = '',
): asserts value is object {
  checkObject(name, value, Object.keys(checks));
  for (const [member, check] of Object.entries(checks)) {
    const given: unknown = value[member as keyof typeof value];
    if (given !== undefined) check(within + member, given);
  }
}
