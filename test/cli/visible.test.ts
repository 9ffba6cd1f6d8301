import { copyFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { visible } from '../../src/cli/table.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { runCli, TINY_MODEL } from './support.js';

const path = temporaryFolder();
const NAME = 'red\u001b[31m\u009b2J\u202etxt.gguf';
const SHOWN = 'red\\u001b[31m\\u009b2J\\u202etxt.gguf';

test('what a terminal would act on is shown instead; text of all languages, tabs and line ends stay', () => {
  expect(visible(`a\tb\n${NAME}\r`)).toBe(`a\tb\n${SHOWN}\\u000d`);
  for (const text of ['Grüße, 日本語, 👩‍💻, עברית', '👩🏽‍💻', '🏳️‍🌈', 'می‌خواهم', 'क्‍ष']) expect(visible(text)).toBe(text);
  // What takes no room, so that one name looks like another.
  expect(visible('a\u200bb\u2060c\ufeffd\u200de\u200cf\u00adg\u{e0041}')).toBe(
    'a\\u200bb\\u2060c\\ufeffd\\u200de\\u200cf\\u00adg\\udb40\\udc41',
  );
  // All of C1, and all that turns the direction.
  for (const [from, to] of [
    [0x80, 0x9f],
    [0x202a, 0x202e],
    [0x2066, 0x2069],
  ] as const)
    for (let code = from; code <= to; code++)
      expect(visible(String.fromCharCode(code))).toBe(`\\u${code.toString(16).padStart(4, '0')}`);
});

test('names do not steer the terminal, neither in errors nor in tables', async () => {
  const missing = await runCli(['inspect', '--model', path(NAME)]);
  expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining(SHOWN) });
  copyFileSync(TINY_MODEL, path(NAME));
  const there = await runCli(['inspect', '--model', path(NAME)]);
  expect(there).toMatchObject({ code: 0, stdout: expect.stringContaining(SHOWN) });
  for (const text of [missing.stderr, there.stdout]) expect(text).not.toMatch(/[\u001b\u009b\u202e]/);
  // For programs names are what they are.
  expect(JSON.parse((await runCli(['inspect', '--json', '--model', path(NAME)])).stdout)).toMatchObject({
    model: path(NAME),
  });
});
