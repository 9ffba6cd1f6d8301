import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { diagnose } from '../src/diagnose.js';

test('tells what there is, as plain data, and of secrets no more than that they are there', async () => {
  const found = await diagnose({ HF_TOKEN: 'hf_secret', HF_HOME: '/models', UNRELATED: 'x' });
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(found.spillway).toBe(version);
  expect(found.node).toEqual({ version: process.versions.node, problem: undefined });
  expect(found.environment).toEqual({ HF_HOME: '/models', HF_TOKEN: 'is set' });
  expect(found.machine?.processors).toBeGreaterThan(0);
  expect(found.folders.map(({ what }) => what)).toEqual([
    'models and what is known of this machine',
    'repacked models and what a run spills',
    'cache of the Hugging Face hub',
  ]);
  expect(JSON.stringify(found)).not.toContain('hf_secret');
});

test.each([
  ['https://me:se/cr@et@hub.example/hf', 'https://***@hub.example/hf'],
  ['me:secret@hub.example', '***@hub.example'],
  ['https://hub.example', 'https://hub.example'],
])('of the address %s no credentials', async (HF_ENDPOINT, shown) => {
  expect((await diagnose({ HF_ENDPOINT })).environment).toEqual({ HF_ENDPOINT: shown });
});
