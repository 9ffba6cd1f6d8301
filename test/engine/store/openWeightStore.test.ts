import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Addon } from '../../../src/bindings/Addon.js';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import {
  openWeightStore,
  repackedBytes,
  type RepackingOptions,
  type WeightStore,
} from '../../../src/engine/store/openWeightStore.js';
import type { StoreHolder } from '../../../src/engine/store/storeHolder.js';
import { identifyModel } from '../../../src/model/identity/identifyModel.js';
import { readModel } from '../../../src/model/readModel.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const source = await readModel(fileURLToPath(new URL('../../fixtures/models/llama-Q4_1.gguf', import.meta.url)));
const identity = await identifyModel(source.files);
const addon = loadAddon();
const path = temporaryFolder();
const folder = path('repacked');
const open = (options: Partial<RepackingOptions> = {}, native: Addon = addon): Promise<WeightStore> =>
  openWeightStore(native, source, identity, { folder, threads: 2, ...options });

beforeEach(() => rmSync(folder, { recursive: true, force: true }));

/** Overwrites some bytes, counted from the start. */
function spoil(file: string, at: number, bytes: Uint8Array): void {
  const contents = readFileSync(file);
  contents.set(bytes, at);
  writeFileSync(file, contents);
}

describe('openWeightStore', () => {
  test('makes a store once', async () => {
    const store = await open();
    expect(readdirSync(folder).map((name) => join(folder, name))).toEqual([store.path]);
    await expect(open({}, { ...addon, repack: () => Promise.reject(new Error('a second time')) })).resolves.toEqual(
      store,
    );
  });

  test('what lies in the folder is known, whole or in part', async () => {
    await expect(repackedBytes(folder, source, identity)).resolves.toBe(0);
    const { path: file } = await open();
    const { size } = statSync(file);
    await expect(repackedBytes(folder, source, identity)).resolves.toBe(size);
    renameSync(file, `${file}.partial`);
    truncateSync(`${file}.partial`, 1000);
    await expect(repackedBytes(folder, source, identity)).resolves.toBe(1000);
    await expect(repackedBytes(folder, { ...source, bindings: [] }, identity)).resolves.toBe(0);
  });

  test.each<[string, (file: string) => void]>([
    ['cut short', (file) => truncateSync(file, 50_000)],
    ['cut within its header', (file) => truncateSync(file, 20)],
    ['emptied', (file) => truncateSync(file, 0)],
    ['with other bytes in its table', (file) => spoil(file, 60, new Uint8Array(16).fill(0x58))],
    ['with a wrong length in its header', (file) => spoil(file, 16, new Uint8Array(16).fill(0xff))],
  ])('a store %s is made anew at once', async (_, damage) => {
    const store = await open();
    const whole = readFileSync(store.path);
    damage(store.path);
    const reported: number[] = [];
    await expect(open({ onProgress: (bytes) => reported.push(bytes) })).resolves.toEqual(store);
    expect(readFileSync(store.path).equals(whole)).toBe(true);
    expect(reported.length).toBeGreaterThan(0);
  });

  test('who has the damaged file open keeps it', async () => {
    const { path: file } = await open();
    spoil(file, 60, new Uint8Array(16).fill(0x58));
    const before = readFileSync(file);
    const held = openSync(file, 'r');
    try {
      await open();
      const kept = Buffer.alloc(before.length);
      expect(readSync(held, kept, 0, kept.length, 0)).toBe(before.length);
      expect(kept.equals(before)).toBe(true);
    } finally {
      closeSync(held);
    }
  });

  test('a file of somebody else in its place stays, and the error says what to do', async () => {
    const { path: file } = await open();
    writeFileSync(file, 'notes that somebody keeps under an unlikely name, long enough for a header');
    await expect(open()).rejects.toMatchObject({
      name: 'ModelFileError',
      file,
      message: expect.stringMatching(
        /magic: found other bytes.*; remove this file and run again, or name another folder/,
      ) as unknown,
    });
    expect(readFileSync(file, 'utf8')).toMatch(/^notes/);
    rmSync(file);
    mkdirSync(file);
    await expect(open()).rejects.toThrow(/found a folder, expected a regular file; remove this file/);
    expect(existsSync(file)).toBe(true);
  });

  test('a file where a folder is expected is said to be one', async () => {
    writeFileSync(path('rows.jsonl'), '{}');
    const file = path('rows.jsonl');
    await expect(open({ folder: file })).rejects.toMatchObject({
      name: 'ModelFileError',
      message: `${file}: folder for repacked models (disk): found a file, expected a folder that exists or can be made, and be written to`,
    });
    await expect(open({ folder: join(file, 'repacked') })).rejects.toMatchObject({
      name: 'ModelFileError',
      file: join(file, 'repacked'),
      found: 'a file on the way to it',
    });
  });

  describe('while another process is at it', () => {
    const busy = Object.assign(new Error('busy'), {
      code: 'busy',
      file: 'x.partial',
      field: 'file',
      found: 'another process that is writing it',
      expected: 'a file that nobody writes',
    });
    const holders: StoreHolder[] = [];
    const onWait = (holder: StoreHolder): void => void holders.push(holder);
    beforeEach(() => {
      holders.length = 0;
    });

    test('waits, says so once, and takes over when it has ended without', async () => {
      let attempts = 0;
      const repack: Addon['repack'] = (...given) => {
        attempts += 1;
        return attempts < 3 ? Promise.reject(busy) : addon.repack(...given);
      };
      const store = await open({ onWait }, { ...addon, repack });
      expect(attempts).toBe(3);
      expect(holders).toEqual([{ path: store.path, pid: undefined }]);
    });

    test('takes what the other one made', async () => {
      let attempts = 0;
      const repack: Addon['repack'] = async (...given) => {
        attempts += 1;
        await addon.repack(...given);
        throw busy;
      };
      await expect(open({ onWait }, { ...addon, repack })).resolves.toEqual(await open());
      expect(attempts).toBe(1);
    });

    test('a signal, and what onWait throws, end the waiting', async () => {
      const native = { ...addon, repack: () => Promise.reject(busy) };
      const controller = new AbortController();
      const waiting = open(
        { signal: controller.signal, onWait: () => setTimeout(() => controller.abort('enough'), 5) },
        native,
      );
      await expect(waiting).rejects.toMatchObject({ name: 'InterruptedError', cause: 'enough' });
      const mine = new Error('mine');
      await expect(
        open(
          {
            onWait: () => {
              throw mine;
            },
          },
          native,
        ),
      ).rejects.toBe(mine);
    });

    test('two openings of one process share what one of them makes', async () => {
      const [one, other] = await Promise.all([open(), open()]);
      expect(one).toEqual(other);
      expect(readdirSync(folder)).toHaveLength(1);
    });
  });

  test('a signal ends repacking at the next report, and the conversion can go on', async () => {
    const controller = new AbortController();
    const seen: unknown[] = [];
    const repack: Addon['repack'] = async (_, onProgress) => {
      await Promise.resolve();
      controller.abort();
      seen.push(onProgress(1000, 2000));
      throw Object.assign(new Error('cancelled'), { code: 'cancelled' });
    };
    await expect(open({ signal: controller.signal }, { ...addon, repack })).rejects.toMatchObject({
      name: 'InterruptedError',
    });
    expect(seen).toEqual([false]);
    await expect(open()).resolves.toMatchObject({ layerBytes: expect.any(Array) as unknown });
  });
});
