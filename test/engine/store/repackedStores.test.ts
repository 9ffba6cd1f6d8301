import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Engine } from '../../../src/index.js';
import { removeRepackedStore, repackedStores } from '../../../src/engine/store/repackedStores.js';
import { model } from '../../e2e/support.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const path = temporaryFolder();
const before = process.env['XDG_CACHE_HOME'];
beforeAll(() => {
  process.env['XDG_CACHE_HOME'] = path('cache');
});
afterAll(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME'];
  else process.env['XDG_CACHE_HOME'] = before;
});

test('what runs have repacked is found wherever they put it, with its model, size and age, and removed', async () => {
  expect(await repackedStores()).toEqual([]);
  const disk = path('elsewhere');
  const file = model('llama-Q8_0.gguf');
  const open = async (): Promise<void> => {
    await using _ = await Engine.open({ model: file, disk, weights: { cpu: 0, disk: 1 } });
  };
  await open();
  await open();
  const found = await repackedStores();
  expect(found).toEqual([
    { path: expect.stringContaining(disk), bytes: expect.any(Number), model: file, made: expect.any(Number) },
  ]);
  expect(found[0]?.bytes).toBeGreaterThan(1000);
  expect(Math.abs(Date.now() - (found[0]?.made ?? 0))).toBeLessThan(120_000);

  // One that nobody noted, half done, in the usual folder; and what is none.
  const usual = path('cache/spillway/repacked');
  mkdirSync(usual, { recursive: true });
  const unknown = join(usual, `${'a'.repeat(24)}-${'b'.repeat(16)}.weights.partial`);
  for (const name of [unknown, join(usual, 'notes.txt')]) writeFileSync(name, 'x'.repeat(100));
  writeFileSync(path('cache/spillway/stores/odd.json'), JSON.stringify({ path: '/etc/passwd', model: 'x' }));
  writeFileSync(path('cache/spillway/stores/torn.json'), '{"path"');
  const all = await repackedStores();
  expect(all.map(({ path: place, model: of }) => [place, of])).toEqual(
    [
      [unknown, undefined],
      [found[0]?.path, file],
    ].sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  );
  for (const store of all) await removeRepackedStore(store);
  expect(await repackedStores()).toEqual([]);
  expect(existsSync(join(usual, 'notes.txt'))).toBe(true);
});
