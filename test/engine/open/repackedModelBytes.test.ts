import { copyFileSync, readdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { Engine } from '../../../src/Engine.js';
import { repackedModelBytes } from '../../../src/engine/open/repackedModelBytes.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const MODEL = fileURLToPath(new URL('../../fixtures/models/llama-Q8_0.gguf', import.meta.url));
const path = temporaryFolder();

test('the repacked file of a model counts in the folder that has it, for what it was compressed to', async () => {
  const disk = path('stores');
  expect(await repackedModelBytes(MODEL, { disk })).toBe(0);
  const engine = await Engine.open({ model: MODEL, disk, policy: 'default', weights: { cpu: 0, disk: 1 } });
  await engine.close();
  const [name = ''] = readdirSync(disk);
  expect(await repackedModelBytes(MODEL, { disk })).toBe(statSync(join(disk, name)).size);
  expect(await repackedModelBytes(MODEL, { disk, compressWeights: '4bit' })).toBe(0);
  expect(await repackedModelBytes(MODEL, { disk: path('.') })).toBe(0);
  expect(await repackedModelBytes('opt-30b', { disk })).toBe(0);
  // Of a copy of the model, which has to be hashed, one hears how far that is.
  const copy = path('copy.gguf');
  copyFileSync(MODEL, copy);
  const told: (readonly [number, number])[] = [];
  const size = await repackedModelBytes(copy, { disk, onProgress: (...bytes) => told.push(bytes) });
  expect(size).toBe(statSync(join(disk, name)).size);
  expect(told.at(-1)).toEqual([statSync(MODEL).size, statSync(MODEL).size]);
  // One that is not complete counts; files of other models do not.
  renameSync(join(disk, name), join(disk, `${name}.partial`));
  expect(await repackedModelBytes(MODEL, { disk })).toBe(statSync(join(disk, `${name}.partial`)).size);
  renameSync(join(disk, `${name}.partial`), join(disk, `0${name.slice(1, -24)}${'f'.repeat(16)}.weights`));
  expect(await repackedModelBytes(MODEL, { disk })).toBe(0);
});
