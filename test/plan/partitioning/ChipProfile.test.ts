import { describe, expect, test } from '@jest/globals';
import { parseChip } from '../../../src/plan/partitioning/ChipProfile.js';
import { builtInHardware, readChip, readHardware } from '../../../src/profile/readHardware.js';
import { builtInChip } from '../support/pope.js';

const TPU = builtInChip('tpu-v4');

describe('a chip', () => {
  test('is as the paper has it', () => {
    expect(TPU).toMatchObject({
      flopsPerSecond: 275e12,
      memoryBytes: 32 * 2 ** 30,
      memoryBytesPerSecond: 1.2e12,
      interconnects: { torus: { kind: 'torus', axes: 3, bytesPerSecond: 270e9 } },
    });
  });

  test('is found by name; machines are none, and chips are no machines', async () => {
    const names = await builtInHardware('chip');
    expect(names).toEqual(['a100', 'epyc-2-cores', 'h100', 'h200', 'tpu-v4']);
    for (const name of names) expect((await readChip(name)).name).toBe(name);
    expect(await builtInHardware()).toEqual([
      'flexgen-t4',
      'flexgen-t4-measured',
      'lm-offload-a100',
      'lm-offload-v100',
    ]);
    await expect(readChip('flexgen-t4')).rejects.toThrow(
      'hardware: found "flexgen-t4", expected a chip: a100, epyc-2-cores, h100, h200, tpu-v4, or a file',
    );
    await expect(readHardware('tpu-v4')).rejects.toThrow('hardware: found "tpu-v4", expected this, flexgen-t4');
    await expect(readChip('hardware/flexgen-t4.json')).rejects.toThrow(
      'hardware/flexgen-t4.json: format: found "spillway-hardware-1", expected spillway-chip-1',
    );
  });

  test.each([
    [{ flopsPerSecond: 0 }, 'flopsPerSecond: found 0, expected a number above 0'],
    [
      { efficiency: { ...TPU.efficiency, network: 1.1 } },
      'efficiency.network: found 1.1, expected a number of at most 1',
    ],
    [{ interconnects: {} }, 'interconnects: found {}, expected at least one interconnect'],
    [{ interconnects: { torus: { ...TPU.interconnects.torus, axes: 4 } } }, 'interconnects.torus.axes: found 4'],
    [{ interconnects: { ring: { kind: 'ring' } } }, 'interconnects.ring.kind: found "ring"'],
    [{ name: 'a\u001b[2J' }, 'name: found "a\\u001b[2J", expected a line of 1 to 200 characters'],
    [{ name: 'a\u009b2J\u202e' }, 'name: found "a\\u009b2J\\u202e", expected a line of 1 to 200 characters'],
    [
      { interconnects: { 'x\u001b[2J': TPU.interconnects.torus } },
      'interconnects: found the name "x\\u001b[2J", expected up to 40 of a-z, 0-9 and -',
    ],
    [{ '\u001b[2J': 1 }, 'document: found the unknown field "\\u001b[2J", expected only known fields'],
    [{ colour: 1 }, 'document: found the unknown field colour, expected only known fields'],
  ])('that makes no sense, %#', (change, sentence) => {
    expect(() => parseChip({ ...TPU, ...change }, 'c.json')).toThrow(`c.json: ${sentence}`);
  });
});
