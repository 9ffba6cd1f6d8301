import { describe, expect, test } from '@jest/globals';
import { checkMembers } from '../../src/arguments/checkMembers.js';
import { text } from '../../src/arguments/memberChecks.js';
import { UsageError } from '../../src/errors/UsageError.js';

const CHECKS = { first: text(), second: text() };

describe('checkMembers', () => {
  test('asks the check of each member that is there, under its name', () => {
    expect(() => checkMembers('options', { first: 'a', second: undefined }, CHECKS)).not.toThrow();
    expect(() => checkMembers('options', { second: 2 }, CHECKS)).toThrow('second: found 2, expected a string');
    expect(() => checkMembers('shares', { second: 2 }, CHECKS, 'shares.')).toThrow(
      'shares.second: found 2, expected a string',
    );
  });

  test('asks of what is inherited as well', () => {
    expect(() => checkMembers('options', Object.create({ first: 1 }), CHECKS)).toThrow('first: found 1');
  });

  test('refuses members without a check, and what is no object', () => {
    expect(() => checkMembers('options', { third: 'a' }, CHECKS)).toThrow(
      'options: found the unknown "third", expected any of first, second',
    );
    for (const value of [null, [], 'first', 3, undefined])
      expect(() => checkMembers('options', value, CHECKS)).toThrow(UsageError);
  });
});
