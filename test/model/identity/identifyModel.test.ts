import {
  appendFileSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from '@jest/globals';
import { identifyModel, type IdentifyOptions } from '../../../src/model/identity/identifyModel.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const path = temporaryFolder();
const cache = path('cache');
const known = join(cache, 'spillway', 'identities.json');
const before = process.env['XDG_CACHE_HOME'];
afterAll(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME'];
  else process.env['XDG_CACHE_HOME'] = before;
});
beforeEach(() => {
  process.env['XDG_CACHE_HOME'] = cache;
});

const file = path('model.gguf');
const hashOf = async (files: readonly string[] = [file], options: IdentifyOptions = {}): Promise<string> =>
  (await identifyModel(files, options)).hash;
/** Bytes that were read. */
async function bytesHashed(files: readonly string[] = [file]): Promise<number> {
  let done = 0;
  await identifyModel(files, { onProgress: (bytes) => (done = bytes) });
  return done;
}

/** Writes in place, and puts the time of the contents back, as `cp -p` and `rsync -t` do. */
function change(name: string, at: number, text: string): void {
  const { atime, mtime } = statSync(name);
  const descriptor = openSync(name, 'r+');
  writeSync(descriptor, text, at);
  closeSync(descriptor);
  utimesSync(name, atime, mtime);
}

describe('identifyModel', () => {
  test('is SHA-256 over the length and that of each MiB, whatever the file is called', async () => {
    writeFileSync(file, Buffer.alloc(2 ** 20 + 5, 'weights'));
    const hashed = (...parts: readonly (string | Buffer)[]): Buffer =>
      parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
    const content = readFileSync(file);
    const {
      weights: [found],
    } = await identifyModel([file]);
    expect(found).toMatchObject({
      name: 'model.gguf',
      bytes: 2 ** 20 + 5,
      hash: hashed(
        `spillway-content ${2 ** 20 + 5}\n`,
        hashed(content.subarray(0, 2 ** 20)),
        hashed(content.subarray(2 ** 20)),
      ).toString('hex'),
    });
    copyFileSync(file, path('copy.bin'));
    expect(await hashOf([path('copy.bin')])).toBe(await hashOf());
    writeFileSync(path('empty.bin'), '');
    expect((await identifyModel([path('empty.bin')])).weights[0]?.bytes).toBe(0);
  });

  test('changes with every change, however soon, with size and time of the contents as before', async () => {
    writeFileSync(file, Buffer.alloc(5000));
    const time = new Date(1_700_000_000_000);
    const seen = new Set<string>();
    for (let round = 0; round < 8; round += 1) {
      change(file, 100 * round, `edit ${round}`);
      utimesSync(file, time, time);
      seen.add(await hashOf());
    }
    expect(seen.size).toBe(8);
  });

  test('an edit in the midst of a file of many MiB; another file in its place', async () => {
    const large = path('large.gguf');
    writeFileSync(large, 'header');
    truncateSync(large, 70 * 2 ** 20);
    const whole = await hashOf([large]);
    change(large, 33_333_333, 'x');
    const edited = await hashOf([large]);
    expect(edited).not.toBe(whole);
    writeFileSync(path('other.gguf'), 'header');
    truncateSync(path('other.gguf'), 70 * 2 ** 20);
    const { atime, mtime } = statSync(large);
    utimesSync(path('other.gguf'), atime, mtime);
    renameSync(path('other.gguf'), large);
    expect(await hashOf([large])).toBe(whole);
  });

  test('what is known is not read again, by another process neither; what was touched is, and is the same', async () => {
    writeFileSync(file, Buffer.alloc(3_000_000, 'known'));
    expect(await bytesHashed()).toBe(3_000_000);
    expect(await bytesHashed()).toBe(0);
    const kept = JSON.parse(readFileSync(known, 'utf8')) as { files: Record<string, string> };
    const {
      weights: [found],
    } = await identifyModel([file]);
    expect(kept.files[found?.stamp ?? '']).toBe(found?.hash);
    const hash = await hashOf();
    utimesSync(file, new Date(), new Date());
    expect(await bytesHashed()).toBe(3_000_000);
    expect(await hashOf()).toBe(hash);
  });

  test.each<[string, () => void]>([
    ['damaged', () => writeFileSync(known, '{"format":"spillway-ident')],
    ['something else', () => writeFileSync(known, '{"format":"spillway-identities-1","files":{"../x":1}}')],
    ['no file', () => mkdirSync(known)],
    [
      'in a place that cannot be written',
      () => {
        writeFileSync(path('in-the-way'), '');
        process.env['XDG_CACHE_HOME'] = path('in-the-way');
      },
    ],
  ])('kept hashes that are %s cost a hash, and nothing else', async (_, spoil) => {
    writeFileSync(file, `of the test ${_}`);
    rmSync(known, { recursive: true, force: true });
    mkdirSync(join(cache, 'spillway'), { recursive: true });
    spoil();
    const hash = await hashOf();
    // In this process it is known from now on.
    expect(await bytesHashed()).toBe(0);
    change(file, 0, 'OF');
    expect(await hashOf()).not.toBe(hash);
    rmSync(known, { recursive: true, force: true });
  });

  test('settings and templates of a folder count, by name; the order of the weights and other files do not', async () => {
    const folder = path('folder');
    mkdirSync(folder);
    const shards = ['a', 'b'].map((name) => join(folder, `${name}.safetensors`));
    for (const shard of shards) writeFileSync(shard, `weights ${shard.at(-13) ?? ''}`);
    for (const name of ['config.json', 'tokenizer.json']) writeFileSync(join(folder, name), '{}');
    const hash = await hashOf(shards);
    writeFileSync(join(folder, 'README.md'), 'read me');
    expect(await hashOf([...shards].reverse())).toBe(hash);
    renameSync(join(folder, 'tokenizer.json'), join(folder, 'tokenizer_config.json'));
    const other = await hashOf(shards);
    expect(other).not.toBe(hash);
    writeFileSync(join(folder, 'chat_template.jinja'), '{{ messages }}');
    expect(new Set([hash, other, await hashOf(shards)]).size).toBe(3);
  });

  test('a file that is written while it is hashed is refused; a signal ends it; so does what is no file', async () => {
    writeFileSync(file, Buffer.alloc(3_000_000, 'changing'));
    await expect(hashOf([file], { onProgress: () => appendFileSync(file, 'x') })).rejects.toMatchObject({
      name: 'ModelFileError',
      file,
      message: expect.stringContaining(
        'found contents that change while they are read, expected a file that nobody writes to',
      ) as unknown,
    });
    const controller = new AbortController();
    await expect(
      hashOf([file], { signal: controller.signal, onProgress: () => controller.abort('enough') }),
    ).rejects.toMatchObject({ name: 'InterruptedError', cause: 'enough' });
    const mine = new Error('mine');
    await expect(
      hashOf([file], {
        onProgress: () => {
          throw mine;
        },
      }),
    ).rejects.toBe(mine);
    await expect(hashOf([path('none.gguf')])).rejects.toMatchObject({
      name: 'ModelFileError',
      found: 'nothing at that path',
    });
    await expect(hashOf([path('.')])).rejects.toMatchObject({ name: 'ModelFileError', found: 'a folder' });
  });
});
