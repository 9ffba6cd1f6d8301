import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { makeFolder } from '../../src/files/makeFolder.js';
import { runCli, TINY_MODEL } from '../cli/support.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';

const path = temporaryFolder();
const onLinux = existsSync('/proc/self') ? test : test.skip;

test('a folder with those above it, and one that is there already, also by a link', () => {
  makeFolder(path('a/b/c'));
  makeFolder(path('a/b/c'));
  symlinkSync(path('a/b'), path('link'));
  makeFolder(path('link'));
  makeFolder(path('link/d'));
  expect(statSync(path('a/b/d')).isDirectory()).toBe(true);
});

test('a file in its place, or on the way', () => {
  writeFileSync(path('file'), 'text');
  expect(() => makeFolder(path('file'))).toThrow('EEXIST');
  expect(() => makeFolder(path('file/a/b'))).toThrow('ENOTDIR');
  symlinkSync(path('nowhere'), path('dangling'));
  expect(() => makeFolder(path('dangling'))).toThrow('EEXIST');
  expect(readFileSync(path('file'), 'utf8')).toBe('text');
});

onLinux('below /proc nothing can be made, which is told at once', () => {
  expect(() => makeFolder('/proc/nowhere/a')).toThrow('ENOENT');
});

onLinux('a cache folder below /proc is one that cannot be written', async () => {
  writeLines(path('in.jsonl'), [{ tokens: [1, 5] }]);
  const files = ['--input', path('in.jsonl'), '--output', path('out.jsonl')];
  expect(
    await runCli(['generate', '--model', TINY_MODEL, ...files, '--max-new-tokens', '2', '--policy', 'default'], '', {
      XDG_CACHE_HOME: '/proc/nowhere',
    }),
  ).toMatchObject({ code: 0 });
});
