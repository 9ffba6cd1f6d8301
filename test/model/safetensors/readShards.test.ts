import { expect, test } from '@jest/globals';
import { readShards } from '../../../src/model/safetensors/readShards.js';
import { makeFolder } from '../support/folders.js';
import { writeSafetensors } from '../support/SafetensorsWriter.js';

test('one file may have more tensors than a call of a function may have arguments', async () => {
  const names = Array.from({ length: 150_000 }, (_, at) => `t${at}`);
  const folder = await makeFolder({
    'index.json': JSON.stringify({ weight_map: Object.fromEntries(names.map((name) => [name, 'a.safetensors'])) }),
    'a.safetensors': writeSafetensors(names.map((name) => ({ name, dtype: 'F32', shape: [0] }))),
  });
  const { files, tensors } = await readShards(folder, 'index.json', new Set(['a.safetensors']));
  expect(files).toHaveLength(1);
  expect(tensors).toHaveLength(names.length);
  expect(tensors.at(-1)).toMatchObject({ name: expect.stringMatching(/^t\d+$/) as unknown, file: 0, bytes: 0 });
});
