import { execFileSync } from 'node:child_process';
import { symlink, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ModelFile } from '../../../src/model/files/ModelFile.js';
import { makeFolder } from '../support/folders.js';

test('fills a buffer from anywhere in the file, through a symbolic link too', async () => {
  const folder = await makeFolder({ x: Uint8Array.of(1, 2, 3, 4) });
  await symlink('x', join(folder, 'link'));
  const target = new Uint8Array(2);
  await ModelFile.use(join(folder, 'link'), (file) => file.fill(target, 1));
  expect([...target]).toEqual([2, 3]);
});

test('a file that loses its end while it is open is an error', async () => {
  const path = join(await makeFolder({ x: new Uint8Array(100) }), 'x');
  const reading = ModelFile.use(path, async (file) => {
    await truncate(path, 40);
    await file.fill(new Uint8Array(50), 10);
  });
  await expect(reading).rejects.toThrow(/found its end at byte 40, expected 100 bytes, its size when it was opened/);
});

test('what is no file is refused, and a named pipe waits for nobody', async () => {
  const folder = await makeFolder();
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  await symlink('loop', join(folder, 'loop'));
  const open = (name: string): Promise<void> => ModelFile.use(join(folder, name), () => Promise.resolve());
  await expect(open('pipe')).rejects.toThrow(/found something that is no regular file/);
  await expect(open('.')).rejects.toThrow(/found a folder/);
  await expect(open('loop')).rejects.toThrow(/found symbolic links that go in circles/);
  await expect(open('none')).rejects.toThrow(/found nothing at that path/);
});
