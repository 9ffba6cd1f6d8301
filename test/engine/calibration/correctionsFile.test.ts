import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parseHardware } from '../../../src/plan/HardwareProfile.js';
import {
  correctionsPath,
  learnRun,
  profileFingerprint,
  readCorrections,
} from '../../../src/engine/calibration/correctionsFile.js';
import { temporaryFolder } from '../../jobs/support/files.js';
import { CPU_MACHINE } from '../../plan/support/hardware.js';

const path = temporaryFolder();
const run = (factor: number): Record<string, { seconds: number; profileSeconds: number }> => ({
  'disk.read': { seconds: 10 * factor, profileSeconds: 10 },
});

describe('what runs taught of a machine', () => {
  test('is kept beside its profile, from run to run', async () => {
    const file = correctionsPath(path('new/folder/abc.json'));
    expect(file).toBe(path('new/folder/abc.corrections.json'));
    expect(await readCorrections(file, CPU_MACHINE)).toEqual({ learned: {} });
    const first = await learnRun(file, CPU_MACHINE, run(1.3), 1);
    expect(await readCorrections(file, CPU_MACHINE)).toEqual({ learned: first });
    const second = await learnRun(file, CPU_MACHINE, run(1.3), 1);
    expect(second['disk.read']?.runs).toBe(2);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      format: 'spillway-corrections-1',
      profile: profileFingerprint(CPU_MACHINE),
      learned: second,
    });
    // A machine that is as slow as can be is kept, too.
    for (let i = 0; i < 40; i++) await learnRun(file, CPU_MACHINE, run(1000), 1);
    const most = await readCorrections(file, CPU_MACHINE);
    expect(most.ignored).toBeUndefined();
    expect(Math.exp(most.learned['disk.read']?.logRatio ?? 0)).toBeCloseTo(4, 1);
  });

  test('is of one profile: another measurement begins anew, and other free memory does not', async () => {
    const file = path('one.corrections.json');
    await learnRun(file, CPU_MACHINE, run(1.3), 1);
    const again = { ...CPU_MACHINE, links: { ...CPU_MACHINE.links, diskReadBytesPerSecond: 1.01e9 } };
    expect(await readCorrections(file, again)).toEqual({ learned: {} });
    expect(profileFingerprint({ ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 1 } })).toBe(
      profileFingerprint(CPU_MACHINE),
    );
    expect(profileFingerprint(parseHardware(JSON.parse(JSON.stringify(CPU_MACHINE)), 'read again'))).toBe(
      profileFingerprint(CPU_MACHINE),
    );
    expect((await learnRun(file, again, run(0.8), 1))['disk.read']?.runs).toBe(1);
    expect(await readCorrections(file, CPU_MACHINE)).toEqual({ learned: {} });
  });

  test('is written anew where the file is damaged, left alone by a run that teaches nothing, and lost without harm where it cannot be written', async () => {
    const file = path('damaged.corrections.json');
    writeFileSync(file, '{"format":"spillway-corrections-1","profile":');
    await learnRun(file, CPU_MACHINE, run(1.3), 0.1);
    expect((await readCorrections(file, CPU_MACHINE)).ignored).toContain('is not used');
    await learnRun(file, CPU_MACHINE, run(1.3), 1);
    expect((await readCorrections(file, CPU_MACHINE)).ignored).toBeUndefined();
    writeFileSync(path('file'), '');
    expect((await learnRun(path('file/x.corrections.json'), CPU_MACHINE, run(1.3), 1))['disk.read']?.runs).toBe(1);
  });

  test('is whole whoever writes at the same time', async () => {
    mkdirSync(path('many'));
    const file = path('many/x.corrections.json');
    const seen: unknown[] = [];
    await Promise.all(
      Array.from({ length: 24 }, async (_, i) => {
        await learnRun(file, CPU_MACHINE, run(1 + i / 50), 1);
        seen.push((await readCorrections(file, CPU_MACHINE)).ignored);
      }),
    );
    expect(new Set(seen)).toEqual(new Set([undefined]));
    expect(readdirSync(path('many'))).toEqual(['x.corrections.json']);
  });
});

test('a hardware file has corrections of known kinds and sane sizes only', () => {
  const parsed = (corrections: unknown): unknown => parseHardware({ ...CPU_MACHINE, corrections }, 'file').corrections;
  expect(parsed({ 'compute.decode.q4.64': 1.3, between: 9 })).toEqual({ 'compute.decode.q4.64': 1.3, between: 9 });
  expect(() => parsed({ 'disk.read': 5 })).toThrow(/corrections.*expected factors from 0.25 to 4/s);
  expect(() => parsed({ 'disk.read': 0 })).toThrow('corrections');
  expect(() => parsed({ 'disk.read': null })).toThrow('corrections.disk.read');
  expect(() => parsed({ 'compute.decode.q5.64': 1 })).toThrow('corrections');
});
