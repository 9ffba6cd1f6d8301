import { constants, existsSync, readFileSync, renameSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { OpenFile } from '../../src/reuse/Generation.js';
import { HEADER } from '../../src/reuse/header.js';
import type { FileOpener } from '../../src/reuse/openGeneration.js';
import { ReuseFile } from '../../src/reuse/ReuseFile.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { answerFor, keyFor } from './support/answers.js';

const path = temporaryFolder();

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: made up`), { code });
}

/** Opens files some of whose operations are others. */
function opening(change: (file: OpenFile) => Partial<OpenFile>): FileOpener {
  return async (...args) => {
    const file = await open(...args);
    const own: OpenFile = {
      read: file.read.bind(file),
      write: file.write.bind(file),
      stat: file.stat.bind(file),
      sync: file.sync.bind(file),
      close: file.close.bind(file),
    };
    return { ...own, ...change(own) };
  };
}

async function using(
  file: string,
  opener: FileOpener,
  body: (store: ReuseFile) => Promise<void> | void,
): Promise<string[]> {
  const warnings: string[] = [];
  const store = await ReuseFile.open(
    file,
    { maxBytes: 2 ** 20, onWarning: (message) => warnings.push(message) },
    opener,
  );
  await body(store);
  await store.close();
  return warnings;
}

async function made(name: string): Promise<string> {
  expect(
    await using(path(name), open, (store) => {
      for (const number of [0, 1, 2]) store.put(keyFor(number), answerFor(number));
    }),
  ).toEqual([]);
  return path(name);
}

async function expectThere(store: ReuseFile, numbers: readonly number[]): Promise<void> {
  for (const number of [0, 1, 2, 3, 4])
    expect(await store.get(keyFor(number))).toEqual(numbers.includes(number) ? answerFor(number) : undefined);
}

const putMore = (store: ReuseFile): void => {
  for (const number of [3, 4]) store.put(keyFor(number), answerFor(number));
};

test('a file that another process begins anew just before it is opened: nothing of it is lost', async () => {
  const file = await made('renamed');
  const opener: FileOpener = async (name, ...more) => {
    if (name === file && !existsSync(`${file}.old`)) renameSync(file, `${file}.old`);
    return open(name, ...more);
  };
  const warnings = await using(file, opener, async (store) => {
    putMore(store);
    await expectThere(store, [0, 1, 2, 3, 4]);
  });
  expect(warnings).toEqual([]);
  expect(existsSync(file)).toBe(true);
});

describe('a disk that fails', () => {
  test('that is full: one warning, and what is there is found', async () => {
    const file = await made('full');
    const { size } = statSync(file);
    const warnings = await using(
      file,
      opening(() => ({ write: () => Promise.reject(systemError('ENOSPC')) })),
      async (store) => {
        // More than is gathered, so that it is written before the end.
        for (let number = 10; number < 1100; number += 1) store.put(keyFor(number), answerFor(number, 1000));
        while ((await store.get(keyFor(10))) !== undefined) await sleep(5);
        putMore(store);
        await expectThere(store, [0, 1, 2]);
      },
    );
    expect(warnings).toEqual([
      `${file}: cannot be written: no space left on the device (ENOSPC); the run goes on, and no more answers are kept`,
    ]);
    expect(statSync(file).size).toBe(size);
  });

  test('that is full in the middle of a write: what was written whole is there, and others go on behind it', async () => {
    const file = await made('short');
    const { size } = statSync(file);
    const cut: FileOpener = opening((own) => ({
      write: (async (...[buffer]: readonly unknown[]) =>
        own.write((buffer as Buffer).subarray(0, 200), 0, 200, null)) as OpenFile['write'],
    }));
    const warnings = await using(file, cut, putMore);
    expect(warnings).toEqual([
      expect.stringMatching(
        /cannot be written: 200 of \d+ bytes could be written; the run goes on, and no more answers are kept/,
      ),
    ]);
    expect(statSync(file).size).toBe(size + 200);
    await using(file, open, (store) => expectThere(store, [0, 1, 2, 3]));
    await using(file, open, putMore);
    await using(file, open, (store) => expectThere(store, [0, 1, 2, 3, 4]));
  });

  test('that cannot be read any more: one warning, and nothing is found', async () => {
    const file = await made('unreadable');
    let fails = false;
    const opener = opening((own) => ({
      read: (...args: Parameters<OpenFile['read']>) => (fails ? Promise.reject(systemError('EIO')) : own.read(...args)),
    }));
    expect(
      await using(file, opener, async (store) => {
        await expectThere(store, [0, 1, 2]);
        fails = true;
        await expectThere(store, []);
        fails = false;
        await expectThere(store, [0, 1, 2]);
      }),
    ).toEqual([`${file}: cannot be read: input/output error of the device (EIO); what is not found is computed again`]);
  });

  test('that fails while it is opened: one warning, and a store without anything', async () => {
    const file = await made('broken');
    const { size } = statSync(file);
    expect(
      await using(
        file,
        () => Promise.reject(systemError('EIO')),
        async (store) => {
          putMore(store);
          await expectThere(store, []);
        },
      ),
    ).toEqual([
      `${file}: cannot be written: input/output error of the device (EIO); the run goes on, and no more answers are kept`,
    ]);
    expect(statSync(file).size).toBe(size);
  });

  test('that fails when all is to be on it', async () => {
    const file = await made('unsynced');
    expect(
      await using(
        file,
        opening(() => ({ sync: () => Promise.reject(systemError('EIO')) })),
        putMore,
      ),
    ).toHaveLength(1);
    await using(file, open, (store) => expectThere(store, [0, 1, 2, 3, 4]));
  });

  test('a file that is cut while it is open', async () => {
    const file = await made('cut');
    expect(
      await using(file, open, async (store) => {
        truncateSync(file, HEADER.length + 100);
        await expectThere(store, []);
      }),
    ).toHaveLength(1);
  });
});

describe('what may only be read', () => {
  test('is read', async () => {
    const file = await made('read only');
    const { size } = statSync(file);
    const opener: FileOpener = (name, flags, mode) =>
      (flags & constants.O_RDWR) !== 0 ? Promise.reject(systemError('EACCES')) : open(name, flags, mode);
    expect(
      await using(file, opener, async (store) => {
        putMore(store);
        await expectThere(store, [0, 1, 2]);
      }),
    ).toEqual([
      `${file}: cannot be written: the system allows reading alone; the run goes on, and no more answers are kept`,
    ]);
    expect(statSync(file).size).toBe(size);
  });

  (existsSync('/sys/kernel') ? test : test.skip)(
    'a folder in which no file can be made: one warning, and a store without anything',
    async () => {
      // Not even root can make a file there.
      const warnings = await using('/sys/kernel/spillway-answers', open, async (store) => {
        putMore(store);
        await expectThere(store, []);
      });
      expect(warnings).toEqual([
        expect.stringMatching(
          /^\/sys\/kernel\/spillway-answers.*(permission denied|not permitted|read-only).*; the run goes on, and no more answers are kept$/,
        ),
      ]);
    },
  );

  test('a new file that cannot be begun: the empty one that it leaves is a new one', async () => {
    const file = path('unbegun');
    expect(
      await using(
        file,
        opening(() => ({ write: () => Promise.reject(systemError('ENOSPC')) })),
        putMore,
      ),
    ).toHaveLength(1);
    expect(readFileSync(file)).toHaveLength(0);
    expect(await using(file, open, putMore)).toEqual([]);
    await using(file, open, (store) => expectThere(store, [3, 4]));
  });
});

test('a warning that throws ends nothing', async () => {
  const file = path('throwing');
  writeFileSync(file, HEADER.subarray(0, 17));
  const store = await ReuseFile.open(file, {
    onWarning: () => {
      throw new Error('of the caller');
    },
  });
  putMore(store);
  await store.close();
  await using(file, open, (other) => expectThere(other, [3, 4]));
});
