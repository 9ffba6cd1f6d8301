import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';

test('the command line in one file is ASCII: V8 reads any other with two bytes a character', () => {
  const bytes = readFileSync(new URL('../../dist/cli/main.js', import.meta.url));
  const at = bytes.findIndex((byte) => byte > 0x7f);
  expect(at < 0 ? '' : bytes.toString('utf8', Math.max(0, at - 80), at + 80)).toBe('');
});
