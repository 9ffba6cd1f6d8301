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
  const unknown = Object.keys(value).find((key) => !known.includes(key) && value[key] !== undefined);
  if (unknown !== undefined)
    throw new UsageError(
      `${name}: found the unknown ${found(unknown)}, expected any of ${known.join(', ')}${didYouMean(unknown, known)}`,
    );
}
