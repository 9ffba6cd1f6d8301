import { describe, expect, test } from '@jest/globals';
import { checkObject } from '../../src/arguments/checkMembers.js';
import { UsageError } from '../../src/errors/UsageError.js';

describe('checkObject', () => {
  test('takes objects with known members, and with absent ones', () => {
    expect(() => checkObject('options', { a: 1, z: undefined }, ['a', 'b'])).not.toThrow();
    expect(() => checkObject('options', Object.create(null))).not.toThrow();
  });

  test.each([[undefined], [null], [3], ['x'], [[]], [() => 1]])('refuses %p', (value) => {
    expect(() => checkObject('options', value)).toThrow(/^options: found .+, expected an object$/);
    expect(() => checkObject('options', value)).toThrow(UsageError);
  });

  test('names a member that is not known', () => {
    expect(() => checkObject('options', { thread: 2 }, ['threads', 'model'])).toThrow(
      'options: found the unknown "thread", expected any of threads, model',
    );
  });
});
