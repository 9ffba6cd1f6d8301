import { expect, test } from '@jest/globals';
import { timeOf } from '../../../src/cli/flags/subsetFlags.js';

const now = new Date(2027, 2, 14, 22, 30);

test.each([
  ['23:00', new Date(2027, 2, 14, 23, 0)],
  ['6:00', new Date(2027, 2, 15, 6, 0)],
  ['22:30', new Date(2027, 2, 15, 22, 30)],
  ['22:30:01', new Date(2027, 2, 14, 22, 30, 1)],
  ['2027-03-20T06:00', new Date(2027, 2, 20, 6, 0)],
  ['2027-03-20 06:00', new Date(2027, 2, 20, 6, 0)],
  ['2027-03-20T06:00:00Z', new Date(Date.UTC(2027, 2, 20, 6))],
  ['2027-03-20T06:00+02:00', new Date(Date.UTC(2027, 2, 20, 4))],
])('%s is a time to come', (text, expected) => {
  expect(timeOf(text, now)).toEqual(expected);
});

test.each(['24:00', '7:60', '', 'tomorrow', '2027-03-20', '1800000000', '2027-13-20T06:00'])(
  '%j is no time',
  (text) => {
    expect(() => timeOf(text, now)).toThrow('Expected HH:MM, or a date and time such as 2027-01-31T06:00.');
  },
);
