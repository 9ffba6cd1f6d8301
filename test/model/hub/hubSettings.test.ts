import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { hubSettings } from '../../../src/model/hub/hubSettings.js';

const home = mkdtempSync(join(tmpdir(), 'spillway-home-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

test.each<[Record<string, string>, string]>([
  [{ HF_HUB_CACHE: '/a', HF_HOME: '/b' }, '/a'],
  [{ HF_HOME: '/b', XDG_CACHE_HOME: '/c' }, '/b/hub'],
  [{ XDG_CACHE_HOME: '/c' }, '/c/huggingface/hub'],
  [{ XDG_CACHE_HOME: 'relative', HF_HOME: '' }, join(homedir(), '.cache/huggingface/hub')],
])('%j: the cache is %s', async (environment, cache) => {
  expect((await hubSettings(environment)).cache).toBe(cache);
});

test('a token of the environment, else that of its file; what cannot stand in a header is none', async () => {
  expect((await hubSettings({ HF_HOME: home })).token).toBeUndefined();
  writeFileSync(join(home, 'token'), ' hf_of_file\n');
  expect((await hubSettings({ HF_HOME: home })).token).toBe('hf_of_file');
  expect((await hubSettings({ HF_HOME: home, HF_TOKEN: 'hf_x' })).token).toBe('hf_x');
  expect((await hubSettings({ HF_HOME: home, HF_TOKEN: 'hf_x\r\nEvil: 1' })).token).toBeUndefined();
});

test('a mirror, and what is no address', async () => {
  expect((await hubSettings({})).endpoint).toBe('https://huggingface.co');
  expect((await hubSettings({ HF_ENDPOINT: 'http://127.0.0.1:1/hf//' })).endpoint).toBe('http://127.0.0.1:1/hf');
  for (const HF_ENDPOINT of ['huggingface.co', 'file:///etc', 'ftp://x'])
    await expect(hubSettings({ HF_ENDPOINT })).rejects.toThrow('HF_ENDPOINT: found');
  await expect(hubSettings({ HF_ENDPOINT: 'https://bob:s3cret@hub.example/x' })).rejects.toThrow(
    /^HF_ENDPOINT: found an address of hub\.example with a user or a password, expected one without: HF_TOKEN is for that$/,
  );
});

test.each([
  ['1', true],
  ['TRUE', true],
  ['on', true],
  ['0', false],
  ['', false],
])('HF_HUB_OFFLINE=%s', async (value, offline) => {
  expect((await hubSettings({ HF_HUB_OFFLINE: value })).offline).toBe(offline);
});
