import { expect, test } from '@jest/globals';
import { describeFailure, folderRemedy } from '../../../src/model/pull/describeFailure.js';

const failure = (code: string, syscall: string): Error => Object.assign(new Error(code), { code, syscall });

test('an error and its causes are one line', () => {
  const cause = new Error('connect\n ECONNREFUSED');
  expect(describeFailure(new Error('fetch failed', { cause }))).toBe('fetch failed: connect; ECONNREFUSED');
  expect(describeFailure(undefined)).toBe('unknown error');
});

test('what is wrong with a folder is told, whichever call meets it; what is not the folder is not', () => {
  expect(folderRemedy(failure('EROFS', 'open'))).toBe(
    'nothing can be written there: its file system is read-only (EROFS)',
  );
  expect(folderRemedy(failure('ENOENT', 'mkdir'))).toBe('no folder can be made there: is it read-only? (ENOENT)');
  expect(folderRemedy(failure('ENOENT', 'open'))).toBeUndefined();
  expect(folderRemedy(new Error('fetch failed'))).toBeUndefined();
  expect(folderRemedy('EROFS')).toBeUndefined();
});
