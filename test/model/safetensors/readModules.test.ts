import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Engine } from '../../../src/index.js';
import { modelSettings } from '../../../src/model/modelFiles.js';
import { readModel } from '../../../src/model/readModel.js';
import { encoderNamed } from '../../support/model/fixtureEncoders.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'spillway-modules-'));
  await cp(encoderNamed('bert').path, folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function write(path: string, value: unknown): Promise<void> {
  await mkdir(join(folder, path, '..'), { recursive: true });
  await writeFile(join(folder, path), JSON.stringify(value));
}

/** A safetensors file of float32. */
async function writeTensors(
  path: string,
  tensors: Readonly<Record<string, readonly (readonly number[])[]>>,
): Promise<void> {
  let at = 0;
  const header = Object.fromEntries(
    Object.entries(tensors).map(([name, rows]) => {
      const shape = name.endsWith('bias') ? [rows[0]?.length] : [rows.length, rows[0]?.length];
      const bytes = 4 * rows.length * (rows[0]?.length ?? 0);
      return [name, { dtype: 'F32', shape, data_offsets: [at, (at += bytes)] }];
    }),
  );
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const data = Buffer.from(Float32Array.from(Object.values(tensors).flat(2)).buffer);
  await writeFile(join(folder, path), Buffer.concat([length, text, data]));
}

async function embedding(): Promise<readonly number[]> {
  await using engine = await Engine.open({ model: folder, precision: 'float32' });
  for await (const { embedding, error } of engine.embed([{ tokens: [5, 6, 7, 8] }], { normalize: false })) {
    if (error) throw new Error(error.message);
    return embedding as readonly number[];
  }
  throw new Error('no row');
}

const POOLING = { type: 'sentence_transformers.models.Pooling', path: '1_Pooling' };
const DENSE = { type: 'sentence_transformers.models.Dense', path: '2_Dense' };
const pooling = (mode: string): Promise<void> => write('1_Pooling/config.json', { [`pooling_mode_${mode}`]: true });

test.each([
  ['mean_tokens', 'mean'],
  ['cls_token', 'cls'],
  ['lasttoken', 'last'],
  ['max_tokens', 'max'],
  ['weightedmean_tokens', 'weightedmean'],
])('%s', async (mode, expected) => {
  await write('modules.json', [{ type: 'sentence_transformers.models.Transformer', path: '' }, POOLING]);
  await pooling(mode);
  expect((await readModel(folder)).pooling).toBe(expected);
});

test('max and the weighted mean are made of the hidden states of all tokens', async () => {
  const of = async (mode: string): Promise<readonly number[]> => {
    await pooling(mode);
    return embedding();
  };
  const [max, mean, weighted, cls] = [
    await of('max_tokens'),
    await of('mean_tokens'),
    await of('weightedmean_tokens'),
    await of('cls_token'),
  ];
  max.forEach((value, c) => {
    expect(value).toBeGreaterThanOrEqual(Math.max(mean[c] ?? NaN, weighted[c] ?? NaN, cls[c] ?? NaN) - 1e-6);
  });
  expect(weighted).not.toEqual(mean);
});

test('a dense module is a product after the pooling', async () => {
  await pooling('mean_tokens');
  const plain = await embedding();
  const rows = Array.from({ length: 3 }, (_, r) => plain.map((__, c) => Math.sin(r * 7 + c) / 8));
  const bias = [0.1, -0.2, 0.3];
  await write('modules.json', [
    POOLING,
    DENSE,
    { type: 'sentence_transformers.models.Normalize', path: '3_Normalize' },
  ]);
  await write('2_Dense/config.json', {
    in_features: 64,
    out_features: 3,
    bias: true,
    activation_function: 'torch.nn.modules.activation.Tanh',
  });
  await writeTensors('2_Dense/model.safetensors', { 'linear.weight': rows, 'linear.bias': [bias] });
  const made = await embedding();
  expect(made).toEqual(
    rows.map((row, r): unknown =>
      expect.closeTo(Math.tanh(row.reduce((sum, weight, c) => sum + weight * (plain[c] ?? NaN), bias[r] ?? NaN)), 5),
    ),
  );
});

test('what the modules say is a part of what the model is', async () => {
  await write('modules.json', [POOLING]);
  await pooling('mean_tokens');
  const settings = await modelSettings([join(folder, 'model.safetensors')]);
  expect(settings).toContain(join(folder, 'modules.json'));
  expect(settings).toContain(join(folder, '1_Pooling', 'config.json'));
});

test.each([
  [[{ type: 'x.Pooling', path: '../elsewhere' }], 'expected the name of a folder, such as 1_Pooling'],
  [{ type: 'x.Pooling' }, 'expected an array of up to 16 modules'],
  [Array.from({ length: 17 }, () => POOLING), 'expected an array of up to 16 modules'],
  [[{ path: '1_Pooling' }], 'expected a text'],
])('modules that are none are refused: %j', async (modules, message) => {
  await write('modules.json', modules);
  await expect(readModel(folder)).rejects.toThrow(message);
});

test('a module that nobody knows is said where it would count', async () => {
  await write('modules.json', [POOLING, { type: 'own.Whitening', path: '2_Whitening' }]);
  await pooling('mean_tokens');
  expect((await readModel(folder)).pooling).toEqual({ unknown: 'a module own.Whitening after the pooling' });
});

test('prompts go before texts, by their names', async () => {
  await cp(encoderNamed('bert-pairs').path, folder, { recursive: true });
  const config = JSON.parse(await readFile(join(folder, 'config.json'), 'utf8')) as { architectures: string[] };
  await write('config.json', { ...config, architectures: ['BertModel'] });
  await write('config_sentence_transformers.json', {
    prompts: { query: 'who ', document: '' },
    default_prompt_name: null,
  });
  await using engine = await Engine.open({ model: folder });
  const of = async (prompt: string, promptName?: string): Promise<unknown> => {
    for await (const { embedding } of engine.embed([{ prompt }], promptName === undefined ? {} : { promptName }))
      return embedding;
    return undefined;
  };
  expect(await of('wrote faust?', 'query')).toEqual(await of('who wrote faust?'));
  expect(await of('wrote faust?', 'document')).toEqual(await of('wrote faust?'));
  expect(() => engine.embed([], { promptName: 'passage' })).toThrow(
    'promptName: found "passage", expected one that the model\'s files have: query, document',
  );
});

test('rows are as long as sentence-transformers would have them, and longer ones are cut or refused', async () => {
  const tokens = Array.from({ length: 40 }, (_, at) => 3 + at);
  const results = async (truncate: 'off' | 'tail'): Promise<unknown[]> => {
    await using engine = await Engine.open({ model: folder, precision: 'float32' });
    const made = [];
    for await (const { embedding, truncated, error } of engine.embed([{ tokens }, { tokens: tokens.slice(0, 24) }], {
      truncate,
    }))
      made.push({ embedding, truncated, message: error?.message });
    return made;
  };
  expect((await readModel(folder)).decoder.contextTokens).toBe(128);
  await write('sentence_bert_config.json', { max_seq_length: 24, do_lower_case: false });
  expect((await readModel(folder)).decoder.contextTokens).toBe(24);
  const [long, short] = await results('off');
  expect(long).toMatchObject({ embedding: undefined, message: expect.stringContaining('context holds 24') });
  const [cut, whole] = await results('tail');
  expect(whole).toEqual(short);
  expect(cut).toEqual({ ...(whole as object), truncated: 16 });
  await write('sentence_bert_config.json', { max_seq_length: 100_000 });
  expect((await readModel(folder)).decoder.contextTokens).toBe(128);
  await write('sentence_bert_config.json', { max_seq_length: null });
  expect((await readModel(folder)).decoder.contextTokens).toBe(128);
  await write('sentence_bert_config.json', { max_seq_length: -1 });
  await expect(readModel(folder)).rejects.toThrow('max_seq_length: found -1');
  await write('sentence_bert_config.json', { max_seq_length: 24, do_lower_case: true });
  await expect(readModel(folder)).rejects.toThrow('do_lower_case');
});
