import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readSafetensorsModel } from '../../../src/model/safetensors/readSafetensorsModel.js';
import { makeFolder } from '../support/folders.js';
import { writeSafetensors } from '../support/SafetensorsWriter.js';
import { TINY_LLAMA_CONFIG, TINY_LLAMA_SAFETENSORS } from '../support/tinyLlama.js';

const INDEX = 'model.safetensors.index.json';
const CONFIG = JSON.stringify(TINY_LLAMA_CONFIG);
const NAMES = TINY_LLAMA_SAFETENSORS.map((tensor) => tensor.name);
const SINGLE = { 'config.json': CONFIG, 'model.safetensors': writeSafetensors(TINY_LLAMA_SAFETENSORS) };
const FIRST = TINY_LLAMA_SAFETENSORS.slice(0, 5);
const SECOND = TINY_LLAMA_SAFETENSORS.slice(5);
const WEIGHT_MAP: Readonly<Record<string, string>> = Object.fromEntries([
  ...FIRST.map(({ name }) => [name, 'a.safetensors']),
  ...SECOND.map(({ name }) => [name, 'b.safetensors']),
]);

const sharded = (weightMap: unknown = WEIGHT_MAP): Record<string, string | Uint8Array> => ({
  'config.json': CONFIG,
  'a.safetensors': writeSafetensors(FIRST),
  'b.safetensors': writeSafetensors(SECOND),
  [INDEX]: JSON.stringify({ metadata: { total_size: 1 }, weight_map: weightMap }),
});
const read = async (files: Record<string, string | Uint8Array>): ReturnType<typeof readSafetensorsModel> =>
  readSafetensorsModel(await makeFolder(files));

describe('weights', () => {
  test('of one file', async () => {
    const folder = await makeFolder(SINGLE);
    const { header, files } = await readSafetensorsModel(folder);
    expect(files).toEqual([join(folder, 'model.safetensors')]);
    expect(header).toMatchObject({ format: 'safetensors', path: folder, config: TINY_LLAMA_CONFIG });
    expect(header.tensors.map(({ name }) => name)).toEqual(NAMES);
  });

  test('that were quantised are refused by the name of the method, not by a tensor', async () => {
    const config = JSON.stringify({
      ...TINY_LLAMA_CONFIG,
      quantization_config: { quant_method: 'quanto' },
    });
    const packed = writeSafetensors([{ name: 'model.layers.0.self_attn.q_proj.qweight', dtype: 'I32', shape: [2, 2] }]);
    await expect(read({ 'config.json': config, 'model.safetensors': packed })).rejects.toThrow(
      /config.json: quantization_config.quant_method: found "quanto"/,
    );
  });

  test('of several, links among them', async () => {
    const folder = await makeFolder(sharded());
    const elsewhere = await makeFolder({ blob: writeSafetensors(SECOND) });
    await rm(join(folder, 'b.safetensors'));
    await symlink(join(elsewhere, 'blob'), join(folder, 'b.safetensors'));
    const { header, files } = await readSafetensorsModel(folder);
    expect(files).toEqual([join(folder, 'a.safetensors'), join(folder, 'b.safetensors')]);
    expect(header.tensors.map(({ name, file }) => [name, file])).toEqual(
      NAMES.map((name, index) => [name, index < 5 ? 0 : 1]),
    );
  });

  test('are refused where the index and the files disagree', async () => {
    await expect(read(sharded({ ...WEIGHT_MAP, 'c.weight': 'a.safetensors' }))).rejects.toThrow(
      /weight_map c.weight: found the file a.safetensors, which does not have that tensor/,
    );
    await expect(read(sharded({ ...WEIGHT_MAP, [NAMES[0] ?? '']: 'b.safetensors' }))).rejects.toThrow(
      /weight_map model.embed_tokens.weight: found the file b.safetensors.*expected a.safetensors/,
    );
    await expect(read({ ...sharded(), 'b.safetensors': writeSafetensors(TINY_LLAMA_SAFETENSORS) })).rejects.toThrow(
      /tensor model.embed_tokens.weight: found the name also in a.safetensors/,
    );
    await expect(
      read(sharded({ ...WEIGHT_MAP, 'c.weight': 'c.safetensors', 'd.weight': 'd.safetensors' })),
    ).rejects.toThrow(/weight_map: found 2 of 4 files missing: c.safetensors, d.safetensors/);
  });

  test.each([
    '../a.safetensors',
    '/etc/a.safetensors',
    'x/../../a.safetensors',
    'x\\a.safetensors',
    '..',
    'a.bin',
    'a\0.safetensors',
    '',
    7,
    null,
    ['a.safetensors'],
  ])('a file name of %j does not leave the folder', async (shard) => {
    await expect(read(sharded({ ...WEIGHT_MAP, 'c.weight': shard }))).rejects.toThrow(
      /weight_map c.weight: found .*, expected the name of a .safetensors file in the same folder/,
    );
  });

  test.each([[[]], [{}], [null], ['text']])('a weight_map of %j is refused', async (weightMap) => {
    await expect(read(sharded(weightMap))).rejects.toThrow(
      /weight_map: found .*, expected an object of file names by tensor/,
    );
  });

  test('are told from what looks like them', async () => {
    await expect(read({ 'config.json': CONFIG })).rejects.toThrow(
      /weights: found neither, expected model.safetensors or model.safetensors.index.json/,
    );
    await expect(read({ 'config.json': CONFIG, 'pytorch_model.bin': '' })).rejects.toThrow(
      /found only pytorch_model.bin, a pickle/,
    );
    await expect(read({ 'tiny.gguf': '' })).rejects.toThrow(
      /config.json: found a folder without one, but with tiny.gguf; name that file itself/,
    );
    await expect(read({ ...SINGLE, 'config.json': '[]' })).rejects.toThrow(
      /config.json: file: found JSON that is an array of 0, expected a JSON object/,
    );
    await expect(readSafetensorsModel('/nonexistent')).rejects.toThrow(/found nothing at that path/);
    const folder = await makeFolder({ 'model.safetensors': SINGLE['model.safetensors'] });
    await mkdir(join(folder, 'config.json'));
    await expect(readSafetensorsModel(folder)).rejects.toThrow(/config.json: file: found a folder/);
  });
});

describe('the tokenizer', () => {
  test('has its files, the chat template and the end tokens', async () => {
    const folder = await makeFolder({
      ...SINGLE,
      'tokenizer.json': '{"model": {}}',
      'tokenizer_config.json': '{"chat_template": "old"}',
      'chat_template.jinja': '{{ messages }}',
      'chat_template.json': '{"chat_template": "older"}',
      'generation_config.json': '{"eos_token_id": [7, 2]}',
    });
    const source = {
      kind: 'tokenizer.json',
      file: join(folder, 'tokenizer.json'),
      tokenizer: { model: {} },
      config: { chat_template: 'old' },
      endTokens: [7, 2],
    };
    expect((await readSafetensorsModel(folder)).tokenizer).toEqual({ ...source, chatTemplate: '{{ messages }}' });
    await rm(join(folder, 'chat_template.jinja'));
    expect((await readSafetensorsModel(folder)).tokenizer).toEqual({ ...source, chatTemplate: 'older' });
    await rm(join(folder, 'chat_template.json'));
    expect((await readSafetensorsModel(folder)).tokenizer).toEqual(source);
    await rm(join(folder, 'tokenizer_config.json'));
    await writeFile(join(folder, 'generation_config.json'), '{}');
    expect((await readSafetensorsModel(folder)).tokenizer).toEqual({ ...source, config: {}, endTokens: [2] });
  });

  test.each([
    [null, []],
    [5, [5]],
    [
      [1, 1, 2],
      [1, 2],
    ],
    [[], []],
  ])('eos_token_id %j', async (eos, expected) => {
    const { tokenizer } = await read({
      ...SINGLE,
      'tokenizer.json': '{}',
      'config.json': JSON.stringify({ ...TINY_LLAMA_CONFIG, eos_token_id: eos }),
    });
    expect(tokenizer).toMatchObject({ endTokens: expected });
  });

  test('end tokens of generation_config.json replace those of config.json', async () => {
    const files = {
      ...SINGLE,
      'tokenizer.json': '{}',
      'config.json': JSON.stringify({ ...TINY_LLAMA_CONFIG, eos_token_id: [2, 3] }),
    };
    expect((await read({ ...files, 'generation_config.json': '{"eos_token_id": 5}' })).tokenizer).toMatchObject({
      endTokens: [5],
    });
    expect((await read({ ...files, 'generation_config.json': '{"eos_token_id": null}' })).tokenizer).toMatchObject({
      endTokens: [2, 3],
    });
  });

  test.each([
    '{"text_config": {"eos_token_id": 4}}',
    '{"llm_config": {"eos_token_id": 4}}',
    '{"eos_token_id": null, "thinker_config": {"text_config": {"eos_token_id": 4}}}',
  ])('end tokens of a model inside a model: %s', async (config) => {
    const { tokenizer } = await read({ ...SINGLE, 'tokenizer.json': '{}', 'config.json': config });
    expect(tokenizer).toMatchObject({ endTokens: [4] });
  });

  test.each(['"</s>"', '-1', '1.5', '[[1]]', '4294967296', 'true'])('eos_token_id %s is refused', async (eos) => {
    await expect(read({ ...SINGLE, 'generation_config.json': `{"eos_token_id": ${eos}}` })).rejects.toThrow(
      /generation_config.json: eos_token_id: found .*, expected a token id or a list of them/,
    );
  });

  test('is missing for a reason', async () => {
    expect((await read(SINGLE)).tokenizer).toEqual({
      kind: 'none',
      reason: 'the folder has no tokenizer.json',
      endTokens: [2],
    });
    expect((await read({ ...SINGLE, 'vocab.json': '{}' })).tokenizer).toEqual({
      kind: 'none',
      reason: expect.stringContaining('only vocab.json; AutoTokenizer'),
      endTokens: [2],
    });
  });

  test('broken files are errors', async () => {
    await expect(read({ ...SINGLE, 'tokenizer.json': '{' })).rejects.toThrow(/tokenizer.json: file: found no JSON/);
    await expect(read({ ...SINGLE, 'tokenizer.json': '{}', 'tokenizer_config.json': '[]' })).rejects.toThrow(
      /tokenizer_config.json: file: found JSON that is an array/,
    );
    await expect(
      read({ ...SINGLE, 'tokenizer.json': '{}', 'chat_template.json': '{"chat_template": {}}' }),
    ).rejects.toThrow(/chat_template: found an object, expected text/);
    await expect(
      read({ ...SINGLE, 'tokenizer.json': '{}', 'chat_template.jinja': Uint8Array.of(0xff) }),
    ).rejects.toThrow(/chat_template.jinja: file: found bytes that are no UTF-8/);
  });
});
