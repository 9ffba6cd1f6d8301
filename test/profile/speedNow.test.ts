import { describe, expect, test } from '@jest/globals';
import { parseHardware } from '../../src/plan/HardwareProfile.js';
import { profileMachine } from '../../src/profile/profileMachine.js';
import { speedNow, speedOf } from '../../src/profile/speedNow.js';
import type { MachineFigure } from '../../src/bindings/Profile.js';
import { CPU_MACHINE } from '../plan/support/hardware.js';

const figure = (what: MachineFigure['what'], perSecond: number, tokens = 0): MachineFigure => ({
  what,
  perSecond,
  tokens,
  inputs: 0,
  kind: what === 'matmul' ? 'q4' : '',
  instructionSet: '',
  threads: CPU_MACHINE.cpu.threads,
  groupHeads: 0,
  requestBytes: 0,
  depth: 0,
  spread: 0,
  samples: 3,
});

describe('how fast the machine is now', () => {
  test('is what was measured over what the profile says, beyond the tenth that looks stray by', () => {
    const cpu = {
      ...CPU_MACHINE.cpu,
      memoryBytesPerSecond: 2e10,
      matmul: [
        { weights: 'q4' as const, tokens: 1, flopsPerSecond: 1e10 },
        { weights: 'q4' as const, tokens: 64, flopsPerSecond: 4e11 },
      ],
    };
    const figures = [figure('memory-read', 1e10), figure('matmul', 2e10, 1), figure('matmul', 3e11, 64)];
    expect(speedOf({ figures, leftOut: [] }, { cpu, links: {} })).toEqual({
      memory: 0.5 * 1.1,
      fewRows: 2 / 1.1,
      manyRows: 0.75 * 1.1,
    });
    const unsteady = [figure('memory-read', 1.9e10), figure('matmul', 1.09e10, 1), figure('matmul', 4e11, 64)];
    expect(speedOf({ figures: unsteady, leftOut: [] }, { cpu, links: {} })).toEqual({
      memory: 1,
      fewRows: 1,
      manyRows: 1,
    });
    // A clock that jumped must not make a machine of no speed, or of endless speed.
    expect(
      speedOf({ figures: [figure('memory-read', 1), figure('matmul', 1e20, 1)], leftOut: [] }, { cpu, links: {} }),
    ).toEqual({ memory: 1.1 / 8, fewRows: 8 / 1.1, manyRows: 1 });
    // A disk is compared where it was looked at, and the profile has one.
    const links = { diskReadBytesPerSecond: 2e9 };
    expect(speedOf({ figures: [figure('disk-read', 5e8)], leftOut: [] }, { cpu, links }).disk).toBe(0.25 * 1.1);
    expect(speedOf({ figures, leftOut: [] }, { cpu, links })).not.toHaveProperty('disk');
    expect(speedOf({ figures: [figure('disk-read', 5e8)], leftOut: [] }, { cpu, links: {} })).not.toHaveProperty(
      'disk',
    );
  });

  test('is measured on this machine, and can be stopped', async () => {
    const profile = parseHardware(await profileMachine({ budget: 0.001, memory: '16MiB', diskBytes: 0 }), 'test');
    for (const ratio of Object.values(await speedNow(profile, undefined))) expect(ratio > 0 && ratio <= 8).toBe(true);
    await expect(speedNow(profile, undefined, AbortSignal.abort('enough'))).rejects.toMatchObject({
      code: 'interrupted',
    });
  });
});
