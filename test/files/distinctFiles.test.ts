import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { UsageError } from '../../src/errors/UsageError.js';
import { checkDistinctFiles } from '../../src/files/realPath.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();
const read = (name: string, file: string) => ({ name, path: file, written: false });
const write = (name: string, file: string) => ({ name, path: file, written: true });

describe('checkDistinctFiles', () => {
  test('two names of one file are one file: links of both kinds, other ways to the folder, files that are still to be', async () => {
    writeFileSync(path('file'), 'x');
    linkSync(path('file'), path('hard'));
    symlinkSync(path('file'), path('soft'));
    mkdirSync(path('folder'));
    symlinkSync(path('folder'), path('way'));
    symlinkSync(path('folder/later'), path('dangling'));
    const pairs = [
      ['file', 'file'],
      ['file', 'hard'],
      ['file', 'soft'],
      ['folder/later', 'way/later'],
      ['folder/later', 'dangling'],
      ['folder/later', 'way/../folder/later'],
    ];
    for (const [a = '', b = ''] of pairs) {
      const clash = checkDistinctFiles([write('--a', path(a)), write('--b', path(b))]);
      await expect(clash).rejects.toThrow(UsageError);
      await expect(clash).rejects.toThrow(`--a and --b name the same file: ${path(b)}`);
    }
    await expect(checkDistinctFiles([read('--a', path('file')), write('--b', path('soft'))])).rejects.toThrow(
      '--a and --b name the same file',
    );
  });

  test('what destroys nothing is allowed: reading twice, a device, a name to read that is no file', async () => {
    writeFileSync(path('file'), 'x');
    await checkDistinctFiles([read('--a', path('file')), read('--b', path('file')), write('--c', path('other'))]);
    await checkDistinctFiles([write('--a', '/dev/null'), write('--b', '/dev/null')]);
    await checkDistinctFiles([read('--a', path('absent')), write('--b', path('absent'))]);
  });
});
