import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { modelFiles } from '../../src/model/modelFiles.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();

test('the files of a model: a folder has those that make it, a split file its others, any other path is itself', async () => {
  const folder = path('model');
  mkdirSync(folder);
  const own = [
    'config.json',
    'model-00001-of-00002.safetensors',
    'model.safetensors.index.json',
    'tokenizer.json',
    'vocab.json',
  ];
  for (const name of [...own, 'answers.jsonl', 'answers.jsonl.job.json']) writeFileSync(join(folder, name), '');
  expect((await modelFiles(folder)).sort()).toEqual(own.map((name) => join(folder, name)));

  const shards = ['m-00001-of-00003.gguf', 'm-00002-of-00003.gguf', 'm-00003-of-00003.gguf'];
  for (const name of [...shards, 'm-00001-of-00002.gguf', 'n-00001-of-00003.gguf']) writeFileSync(path(name), '');
  expect((await modelFiles(path('m-00002-of-00003.gguf'))).sort()).toEqual(shards.map(path));
  expect(await modelFiles(path('alone.gguf'))).toEqual([path('alone.gguf')]);
});
