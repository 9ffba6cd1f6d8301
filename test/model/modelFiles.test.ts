import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { modelFiles, modelSettings } from '../../src/model/modelFiles.js';
import { readTokenizerFiles } from '../../src/model/safetensors/readTokenizerFiles.js';
import { createTokenizer } from '../../src/model/createTokenizer.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
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

test('named chat templates of a folder are read, decide results, and are not overwritten', async () => {
  await using model = await tinyChatModel({ template: 'default' });
  const folder = join(model.path, 'additional_chat_templates');
  mkdirSync(folder);
  for (const [name, text] of [
    ['tool_use.jinja', 'with {{ tools | length }} tools'],
    ['rag.jinja', 'with documents'],
    ['notes.txt', 'none'],
  ] as const)
    writeFileSync(join(folder, name), text);
  writeFileSync(join(model.path, 'chat_template.jinja'), 'default');
  const own = ['rag.jinja', 'tool_use.jinja'].map((name) => join(folder, name));
  expect(await modelFiles(model.path)).toEqual(expect.arrayContaining(own));
  expect(await modelSettings([join(model.path, 'model.safetensors')])).toEqual(expect.arrayContaining(own));
  const source = await readTokenizerFiles(model.path, new Set(readdirSync(model.path)), {});
  const tokenizer = createTokenizer(source, 256);
  const messages = [{ role: 'user', content: 'a' }];
  expect(tokenizer.renderChat(messages)).toBe('default');
  expect(tokenizer.renderChat(messages, { tools: [{}, {}] })).toBe('with 2 tools');
});
