import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readModel } from '../../src/model/readModel.js';
import { makeFolder } from './support/folders.js';
import { writeGguf } from './support/GgufWriter.js';
import { writeSafetensors } from './support/SafetensorsWriter.js';
import { TINY_LLAMA_CONFIG, TINY_LLAMA_GGUF, TINY_LLAMA_SAFETENSORS, tinyLlamaSplit } from './support/tinyLlama.js';

const FOLDER = {
  'config.json': JSON.stringify(TINY_LLAMA_CONFIG),
  'model.safetensors': writeSafetensors(TINY_LLAMA_SAFETENSORS),
};

describe('a model', () => {
  test('of a GGUF file', async () => {
    const path = join(await makeFolder({ 'tiny.gguf': writeGguf(TINY_LLAMA_GGUF).bytes }), 'tiny.gguf');
    const model = await readModel(path);
    expect(model).toMatchObject({
      path,
      format: 'gguf',
      files: [path],
      decoder: { family: 'llama', layers: 1, hiddenSize: 32, vocabularySize: 8 },
    });
    expect(model.tensors).toHaveLength(TINY_LLAMA_GGUF.tensors.length);
    expect(model.bindings.find(({ role }) => role === 'q.weight')).toMatchObject({
      type: 'Q4_0',
      rows: 32,
      columns: 32,
      layer: 0,
    });
    expect(model.tokenizer.kind).toBe('gguf');
  });

  test('of a split one', async () => {
    const folder = await makeFolder(
      Object.fromEntries(
        tinyLlamaSplit(2).map((input, index) => [`tiny-0000${index + 1}-of-00002.gguf`, writeGguf(input).bytes]),
      ),
    );
    const model = await readModel(join(folder, 'tiny-00002-of-00002.gguf'));
    expect(model.files).toHaveLength(2);
    expect(model.bindings.find(({ role }) => role === 'down.weight')?.segments[0]?.file).toBe(1);
  });

  test('of a folder', async () => {
    const path = await makeFolder(FOLDER);
    const model = await readModel(path);
    expect(model).toMatchObject({
      path,
      format: 'safetensors',
      files: [join(path, 'model.safetensors')],
      decoder: { family: 'llama', headDim: 16 },
    });
    expect(model.bindings.find(({ role }) => role === 'k.weight')).toMatchObject({
      type: 'BF16',
      rows: 16,
      columns: 32,
    });
    expect(model.tokenizer).toMatchObject({ kind: 'none' });
  });

  test('is plain data: it can be sent to a worker', async () => {
    const model = await readModel(await makeFolder(FOLDER));
    expect(structuredClone(model)).toEqual(model);
  });
});

describe('a path that is no model', () => {
  test('that leads nowhere', async () => {
    await expect(readModel('/nonexistent/model.gguf')).rejects.toThrow(
      /^\/nonexistent\/model.gguf: file: found nothing at that path, expected a readable file/,
    );
    await expect(readModel('')).rejects.toMatchObject({ code: 'model-file' });
  });

  test.each(['config.json', 'model.safetensors'])('that leads to %s inside the folder', async (name) => {
    await expect(readModel(join(await makeFolder(FOLDER), name))).rejects.toThrow(
      /found one file of a safetensors model, expected the folder that it lies in/,
    );
  });

  test('that leads to a file of another kind', async () => {
    const folder = await makeFolder(FOLDER);
    await writeFile(join(folder, 'x.bin'), await readFile(join(folder, 'config.json')));
    await expect(readModel(join(folder, 'x.bin'))).rejects.toThrow(/magic: found the bytes/);
  });

  test('of an unknown family', async () => {
    await expect(readModel(await makeFolder({ ...FOLDER, 'config.json': '{"model_type": "bambo"}' }))).rejects.toThrow(
      /bambo.*bamba/,
    );
    await expect(readModel(await makeFolder({ ...FOLDER, 'config.json': '{}' }))).rejects.toMatchObject({
      code: 'model-file',
    });
  });
});
