import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { EnergyCounters } from '../../../src/engine/execution/EnergyCounters.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const path = temporaryFolder();

/** Counters as Linux shows them, in microjoules. */
function folderOf(counters: Readonly<Record<string, readonly [name: string, energy: number | string]>>): string {
  const folder = path(`powercap-${Object.keys(counters).join('')}`);
  rmSync(folder, { recursive: true, force: true });
  for (const [zone, [name, energy]] of Object.entries(counters)) {
    mkdirSync(join(folder, zone), { recursive: true });
    writeFileSync(join(folder, zone, 'name'), `${name}\n`);
    writeFileSync(join(folder, zone, 'energy_uj'), `${energy}\n`);
    writeFileSync(join(folder, zone, 'max_energy_range_uj'), '10000000\n');
  }
  return folder;
}

test('packages and their memory are added up; parts of a package, and the board with all in it, are not', () => {
  const folder = folderOf({
    'intel-rapl:0': ['package-0', 1_000_000],
    'intel-rapl:0:0': ['core', 5],
    'intel-rapl:0:1': ['dram', 2_000_000],
    'intel-rapl:1': ['psys', 7],
    dtpm: ['package-1', 9],
  });
  const counters = EnergyCounters.open(folder);
  expect(counters?.joules()).toBe(0);
  for (const [zone, energy] of [
    ['intel-rapl:0', 4_000_000],
    ['intel-rapl:0:0', 9_000_000],
    ['intel-rapl:0:1', 2_500_000],
    ['intel-rapl:1', 9_000_000],
    ['dtpm', 9_000_000],
  ] as const)
    writeFileSync(join(folder, zone, 'energy_uj'), String(energy));
  expect(counters?.joules()).toBe(3.5);
});

test('a package of several dies has a counter for each, and memory alone is no measurement', () => {
  const folder = folderOf({
    'intel-rapl:0': ['package-0-die-0', 0],
    'intel-rapl:1': ['package-0-die-1', 0],
    'intel-rapl:1:0': ['dram', 0],
  });
  const counters = EnergyCounters.open(folder);
  for (const zone of ['intel-rapl:0', 'intel-rapl:1', 'intel-rapl:1:0'])
    writeFileSync(join(folder, zone, 'energy_uj'), '1000000');
  expect(counters?.joules()).toBe(3);
  expect(EnergyCounters.open(folderOf({ 'intel-rapl:4': ['dram', 0], 'intel-rapl:5': ['core', 0] }))).toBeUndefined();
});

test('a counter that begins anew goes on', () => {
  const folder = folderOf({ 'intel-rapl:0': ['package-0', 9_000_000] });
  const counters = EnergyCounters.open(folder);
  writeFileSync(join(folder, 'intel-rapl:0', 'energy_uj'), '500000');
  expect(counters?.joules()).toBe(1.5);
  // One that cannot be read for the moment has its energy at the next look.
  rmSync(join(folder, 'intel-rapl:0', 'energy_uj'));
  expect(counters?.joules()).toBe(1.5);
  writeFileSync(join(folder, 'intel-rapl:0', 'energy_uj'), '1500000');
  expect(counters?.joules()).toBe(2.5);
});

test('there are none where the system has none, or one of them says no number', () => {
  expect(EnergyCounters.open(path('nowhere'))).toBeUndefined();
  expect(EnergyCounters.open(folderOf({ 'intel-rapl:2': ['psys', 1] }))).toBeUndefined();
  expect(EnergyCounters.open(folderOf({ 'intel-rapl:3': ['package-0', 'none'] }))).toBeUndefined();
});
