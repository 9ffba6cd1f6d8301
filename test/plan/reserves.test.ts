import { expect, test } from '@jest/globals';
import { processBytes } from '../../src/plan/reserves.js';

const MIB = 2 ** 20;

test('a process as it usually starts counts the same, whatever it holds to the megabyte', () => {
  const counted = new Set([60, 82, 105, 117, 132, 150].map((mib) => processBytes(mib * MIB, 49_152).residentBytes));
  expect(counted.size).toBe(1);
  const [usual = NaN] = counted;
  expect(usual).toBeGreaterThan(117 * MIB);
  expect(usual).toBeLessThan(125 * MIB);
  expect(processBytes(80 * MIB, 256).residentBytes).toBeLessThan(90 * MIB);
});

test('one that holds more counts as it is, and advice is for a start that finds a little more', () => {
  const { residentBytes, laterBytes } = processBytes(700 * MIB, 49_152);
  expect(residentBytes).toBe(700 * MIB);
  expect(laterBytes).toBeGreaterThanOrEqual(716 * MIB);
  expect(processBytes(703 * MIB, 49_152).laterBytes).toBe(laterBytes);
});
