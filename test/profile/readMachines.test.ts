import { copyFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { readMachines } from '../../src/profile/readMachines.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();

test('machines by known names and by files that lie beside; links of their own, of all, or Ethernet', async () => {
  copyFileSync(fileURLToPath(new URL('../../hardware/flexgen-t4.json', import.meta.url)), path('mine.json'));
  const link = { bytesPerSecond: 5, latencySeconds: 0 };
  const machines = [{ hardware: 'flexgen-t4' }, { name: 'mine', hardware: './mine.json', link }];
  writeFileSync(path('machines.json'), JSON.stringify({ machines }));
  const read = await readMachines(path('machines.json'));
  expect(read.map(({ name, link: own }) => [name, own])).toEqual([
    ['1', { bytesPerSecond: 117e6, latencySeconds: 0.0002 }],
    ['mine', link],
  ]);
  expect(read[1]?.hardware.memory).toEqual(read[0]?.hardware.memory);
  writeFileSync(path('machines.json'), JSON.stringify({ machines, link: { ...link, bytesPerSecond: 7 } }));
  expect((await readMachines(path('machines.json')))[0]?.link.bytesPerSecond).toBe(7);
});

test.each([
  ['{}', /machines: found nothing/],
  ['[]', /expected/],
  [JSON.stringify({ machines: [{ hardware: 'x.json' }, { hardware: 'x.json' }] }), /x\.json/],
  [
    JSON.stringify({ machines: [{ hardware: 'flexgen-t4', link: { bytesPerSecond: -1, latencySeconds: 0 } }] }),
    /machines/,
  ],
  ...['', 'two\nlines', 'a\ttab', '\u001b[2J', 'back\u202ewards', 'x'.repeat(101)].map(
    (name) =>
      [
        JSON.stringify({ machines: [{ hardware: 'flexgen-t4' }, { name, hardware: 'flexgen-t4' }] }),
        /machines\.1\.name: found ".*, expected a line of 1 to 100 characters, none of them a control character/,
      ] as const,
  ),
])('a file that is none is refused: %s', async (text, words) => {
  writeFileSync(path('wrong.json'), text);
  await expect(readMachines(path('wrong.json'))).rejects.toThrow(words);
});
