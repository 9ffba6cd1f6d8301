import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { acquireFileLock } from '../../src/files/fileLock.js';
import { HEADER, headerOf } from '../../src/reuse/header.js';
import type { KeptAnswer } from '../../src/KeptAnswer.js';
import { HEAD_BYTES } from '../../src/reuse/record.js';
import { ReuseFile } from '../../src/reuse/ReuseFile.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { answerFor, answers, keyFor } from './support/answers.js';

const path = temporaryFolder();
const LEAST = 2 ** 20;

/** Opens a store, does something, closes it. @returns what it warned of */
async function using(
  file: string,
  body: (store: ReuseFile) => Promise<void> | void,
  maxBytes = LEAST,
): Promise<string[]> {
  const warnings: string[] = [];
  const store = await ReuseFile.open(file, { maxBytes, onWarning: (message) => warnings.push(message) });
  await body(store);
  await store.close();
  return warnings;
}

async function putAll(file: string, numbers: readonly number[], textBytes = 0): Promise<void> {
  const warnings = await using(file, (store) => {
    for (const number of numbers) store.put(keyFor(number), answerFor(number, textBytes));
  });
  expect(warnings).toEqual([]);
}

/** Which of the first `count` are there; each that is there must be right. */
async function numbersIn(store: ReuseFile, count: number, textBytes = 0): Promise<number[]> {
  const there: number[] = [];
  for (let number = 0; number < count; number += 1) {
    const answer = await store.get(keyFor(number));
    if (answer === undefined) continue;
    expect(answer).toEqual(answerFor(number, textBytes));
    there.push(number);
  }
  return there;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

describe('a file of answers', () => {
  test('keeps what is put from one opening to the next', async () => {
    const file = path('kept');
    const logprobs = [{ token: 5, logprob: -0.5, top: [{ token: 5, logprob: -0.5 }] }];
    expect(
      await using(file, async (store) => {
        expect(await store.get(keyFor('a'))).toBeUndefined();
        store.put(keyFor('a'), { text: '\ud800', tokens: [5], finishReason: 'stop', logprobs });
        expect(await store.get(keyFor('a'))).toEqual({ text: '\ud800', tokens: [5], finishReason: 'stop', logprobs });
      }),
    ).toEqual([]);
    expect(
      await using(file, async (store) => {
        expect(await store.get(keyFor('a').toString('hex').toUpperCase())).toEqual({
          text: '\ud800',
          tokens: [5],
          finishReason: 'stop',
          logprobs,
        });
        expect(await store.get(keyFor('b'))).toBeUndefined();
      }),
    ).toEqual([]);
    expect(readdirSync(path('.')).filter((name) => name.startsWith('kept'))).toEqual(['kept']);
  });

  test('writes before long, without close', async () => {
    const file = path('soon');
    const store = await ReuseFile.open(file);
    store.put(keyFor(1), answerFor(1));
    while (statSync(file).size === HEADER.length) await sleep(10);
    await using(file, async (other) => expect(await other.get(keyFor(1))).toEqual(answerFor(1)));
    await store.close();
  });

  test('holds a key once', async () => {
    const file = path('once');
    await putAll(file, [1, 1, 1]);
    const { size } = statSync(file);
    await putAll(file, [1, 1]);
    expect(statSync(file).size).toBe(size);
  });

  test('any answers come back as they were', async () => {
    const file = path('any');
    await fc.assert(
      fc.asyncProperty(fc.array(answers, { maxLength: 20 }), async (list) => {
        for (const twice of [true, false]) {
          await using(file, async (store) => {
            for (const [at, answer] of list.entries()) {
              if (twice) store.put(keyFor([list, at]), answer);
              else expect(await store.get(keyFor([list, at]))).toEqual(answer);
            }
          });
        }
      }),
      { numRuns: 20 },
    );
  });

  test('reads answers that are longer than what is read at once', async () => {
    const file = path('long');
    const long = { ...answerFor(1), text: 'é'.repeat(3 * 2 ** 20) };
    await using(
      file,
      (store) => {
        store.put(keyFor('long'), long);
        store.put(keyFor(2), answerFor(2, 5000));
      },
      2 ** 25,
    );
    expect(
      await using(
        file,
        async (store) => {
          expect(await store.get(keyFor('long'))).toEqual(long);
          expect(await store.get(keyFor(2))).toEqual(answerFor(2, 5000));
        },
        2 ** 25,
      ),
    ).toEqual([]);
  });

  test('no longer takes or finds anything when it is closed, however often', async () => {
    const store = await ReuseFile.open(path('closed'));
    await Promise.all([store.close(), store.close()]);
    store.put(keyFor(1), answerFor(1));
    expect(await store.get(keyFor(1))).toBeUndefined();
    await store.close();
    expect(statSync(path('closed')).size).toBe(HEADER.length);
  });

  test('says what is wrong with keys and options', async () => {
    const store = await ReuseFile.open(path('arguments'));
    await expect(store.get('abc')).rejects.toThrow(
      new UsageError('key: found "abc", expected 32 bytes, or 64 hexadecimal digits'),
    );
    expect(() => store.put(Buffer.alloc(31), answerFor(1))).toThrow('key: found 31 bytes, expected 32 bytes');
    await store.close();
    await expect(ReuseFile.open(path('arguments'), { maxBytes: LEAST - 1 })).rejects.toThrow(
      `maxBytes: found ${LEAST - 1}, expected a whole number of at least ${LEAST}`,
    );
    await expect(ReuseFile.open(path('arguments'), { most: 1 } as object)).rejects.toThrow(UsageError);
    await expect(ReuseFile.open(path('no/folder'))).rejects.toThrow(
      `${path('no/folder')}: cannot be opened: no such file or folder (ENOENT)`,
    );
  });

  test('opening can be ended', async () => {
    const file = path('aborted');
    await putAll(file, [1, 2]);
    await expect(ReuseFile.open(file, { signal: AbortSignal.abort('enough') })).rejects.toThrow(InterruptedError);
    await expect(ReuseFile.open(path('aborted-anew'), { signal: AbortSignal.abort() })).rejects.toThrow(
      InterruptedError,
    );
    expect(existsSync(path('aborted-anew'))).toBe(false);
  });

  test('lies beside what a link leads to', async () => {
    const [file, link] = [path('linked'), path('link')];
    await putAll(file, upTo(10));
    symlinkSync(file, link);
    await putAll(link, upTo(2000), 1000);
    expect(existsSync(`${file}.old`)).toBe(true);
    expect(existsSync(`${link}.old`)).toBe(false);
  });
});

describe('a damaged file', () => {
  test.each([
    ['a torn header', HEADER.subarray(0, 18), 'a part of a header'],
    ['a damaged header', Buffer.concat([HEADER.subarray(0, 23), Buffer.of(1)]), 'a damaged header'],
    [
      'a damaged one of another version',
      Buffer.concat([headerOf(7).subarray(0, 23), Buffer.of(1)]),
      'a damaged header',
    ],
  ])('without its header is begun anew: %s', async (name, start, found) => {
    const file = path(`header ${name}`);
    writeFileSync(file, Buffer.concat([start, Buffer.alloc(start.length < HEADER.length ? 0 : 1000)]));
    expect(await using(file, (store) => store.put(keyFor(1), answerFor(1)))).toEqual([
      `${file}: found ${found} of a file of answers, expected version 1; it is begun anew, and its answers are computed again`,
    ]);
    expect(await using(file, async (store) => expect(await numbersIn(store, 3)).toEqual([1]))).toEqual([]);
    writeFileSync(`${file}.old`, start);
    expect(await using(file, async (store) => expect(await numbersIn(store, 3)).toEqual([1]))).toEqual([
      `${file}.old: found ${found} of a file of answers, expected version 1; its answers are computed again`,
    ]);
  });

  test('an empty one is a new one', async () => {
    writeFileSync(path('empty'), '');
    await putAll(path('empty'), [1]);
    await using(path('empty'), async (store) => expect(await numbersIn(store, 3)).toEqual([1]));
  });

  test('says once what it has lost, and goes on behind it', async () => {
    const file = path('torn');
    await putAll(file, [0]);
    const { size } = statSync(file);
    await putAll(file, [1]);
    truncateSync(file, size + 70);
    // A torn end is what a process leaves that was killed: no answer was there.
    expect(
      await using(file, async (store) => {
        expect(await numbersIn(store, 5)).toEqual([0]);
        store.put(keyFor(2), answerFor(2));
        store.put(keyFor(3), answerFor(3));
      }),
    ).toEqual([
      `${file}: 70 bytes from byte ${size} on are no whole records, as a process leaves them that is ended while it writes, or a disk that fails; what they held is computed again`,
    ]);
    expect(await using(file, async (store) => expect(await numbersIn(store, 5)).toEqual([0, 2, 3]))).toHaveLength(1);
  });

  test('what is changed behind its back is not found, is said once, and can be put again', async () => {
    const file = path('changed');
    await putAll(file, [0, 1, 2]);
    const warnings = await using(file, async (store) => {
      const content = readFileSync(file);
      for (const number of [0, 1]) content[content.indexOf(`answer ${number}`)] = 0x41;
      writeFileSync(file, content);
      expect(await numbersIn(store, 3)).toEqual([2]);
      store.put(keyFor(0), answerFor(0));
    });
    expect(warnings).toEqual([`${file}: found an answer that is not as it was written; it is computed again`]);
    await using(file, async (store) => expect(await numbersIn(store, 3)).toEqual([0, 2]));
  });

  test('any cut and any changed byte: nothing wrong, nothing thrown, and all other answers are there', async () => {
    const file = path('flipped');
    await putAll(file, upTo(8), 40);
    const good = readFileSync(file);
    // Records of one size, as all numbers have one digit.
    const recordBytes = (good.length - HEADER.length) / 8;
    const change = fc.record({
      at: fc.integer({ min: HEADER.length, max: good.length - 1 }),
      bits: fc.integer({ min: 1, max: 255 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { maxLength: 3 }),
        fc.option(fc.integer({ min: HEADER.length, max: good.length })),
        async (changes, cut) => {
          const content = Buffer.from(good.subarray(0, cut ?? undefined));
          const hit = new Set<number>();
          for (const { at, bits } of changes) {
            if (at >= content.length) continue;
            content[at] = (good[at] ?? 0) ^ bits;
            hit.add(Math.floor((at - HEADER.length) / recordBytes));
          }
          rmSync(file, { force: true });
          writeFileSync(file, content);
          await using(file, async (store) => {
            expect(await numbersIn(store, 8, 40)).toEqual(
              upTo(8).filter(
                (number) => !hit.has(number) && HEADER.length + (number + 1) * recordBytes <= content.length,
              ),
            );
            store.put(keyFor(9), answerFor(9));
          });
          await using(file, async (store) => expect(await store.get(keyFor(9))).toEqual(answerFor(9)));
        },
      ),
      { numRuns: 100 },
    );
  });

  test('any bytes behind our header', async () => {
    const file = path('rubbish');
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.nat(24), async (bytes, headerBytes) => {
        writeFileSync(file, Buffer.concat([HEADER.subarray(0, headerBytes < 16 ? 24 : headerBytes), bytes]));
        await using(file, async (store) => expect(await numbersIn(store, 3)).toEqual([]));
      }),
      { numRuns: 50 },
    );
  });

  test('a record of the right shape with other contents is not found', async () => {
    const file = path('shape');
    await using(file, (store) =>
      store.put(keyFor(1), { text: 7, tokens: [], finishReason: 'stop' } as unknown as KeptAnswer),
    );
    expect(statSync(file).size).toBeGreaterThan(HEADER.length + HEAD_BYTES);
    expect(await using(file, async (store) => expect(await store.get(keyFor(1))).toBeUndefined())).toHaveLength(1);
  });
});

describe('a file of another version', () => {
  const size = 5 * 2 ** 20;
  const words = (file: string, version: number): string =>
    `${file}: found version ${version} of a file of answers, expected version 1; nothing was changed; give another name to keep answers beside it; the run goes on, and no more answers are kept`;

  test.each([
    [7, ''],
    [0, ''],
    [7, '.old'],
    [0, '.old'],
  ])('is left as it is, told once, and the run goes on without: version %i in FILE%s', async (version, ending) => {
    const file = path(`version ${version}${ending}`);
    const content = Buffer.alloc(size, 'what another version has kept');
    headerOf(version).copy(content);
    writeFileSync(file + ending, content);
    const warnings = await using(file, async (store) => {
      // More than a file of this bound holds, and than is gathered.
      for (const number of upTo(1200)) store.put(keyFor(number), answerFor(number, 1000));
      // What waits to be written is found until that is given up.
      while ((await store.get(keyFor(0))) !== undefined) await sleep(5);
      expect(await numbersIn(store, 3)).toEqual([]);
    });
    expect(warnings).toEqual([words(file + ending, version)]);
    expect(readFileSync(file + ending).equals(content)).toBe(true);
    expect(readdirSync(path('.')).filter((name) => name.startsWith(`version ${version}${ending}`))).toEqual([
      `version ${version}${ending}${ending}`,
    ]);
  });

  test.each(['', '.old'])(
    'that takes the place of FILE%s meanwhile is neither written, renamed nor replaced',
    async (ending) => {
      const file = path(`version taken${ending}`);
      const warnings = await using(file, async (store) => {
        store.put(keyFor(0), answerFor(0));
        rmSync(file + ending, { force: true });
        writeFileSync(file + ending, headerOf(2));
        for (const number of upTo(1200)) store.put(keyFor(number), answerFor(number, 1000));
        await sleep(20);
      });
      expect(warnings).toEqual([words(file + ending, 2)]);
      expect(readFileSync(file + ending).equals(headerOf(2))).toBe(true);
    },
  );

  test('in FILE.old: what FILE has is found all the same', async () => {
    const file = path('version beside');
    await putAll(file, [1, 2]);
    writeFileSync(`${file}.old`, headerOf(2));
    expect(await using(file, async (store) => expect(await numbersIn(store, 4)).toEqual([1, 2]))).toEqual([
      words(`${file}.old`, 2),
    ]);
  });
});

describe("somebody else's file", () => {
  test.each(['', '.old'])('is left alone: FILE%s', async (ending) => {
    const file = path(`notes${ending.slice(1)}`);
    for (const content of ['{"prompt":"a"}\n', 'S', HEADER.subarray(1).toString('latin1')]) {
      writeFileSync(file + ending, content, 'latin1');
      await expect(ReuseFile.open(file)).rejects.toThrow(UsageError);
      await expect(ReuseFile.open(file)).rejects.toThrow(
        /found a file that begins with .* expected no file, an empty one, or one in which Spillway keeps answers; nothing was changed/,
      );
      expect(readFileSync(file + ending, 'latin1')).toBe(content);
    }
    rmSync(file + ending);
    mkdirSync(file + ending);
    await expect(ReuseFile.open(file)).rejects.toThrow('found a folder');
    rmSync(file + ending, { recursive: true });
    execFileSync('mkfifo', [file + ending]);
    await expect(ReuseFile.open(file)).rejects.toThrow('found a FIFO');
    rmSync(file + ending);
    expect(readdirSync(path('.')).filter((name) => name.startsWith('notes'))).toEqual([]);
  });

  test('nor are devices, sockets and links that lead nowhere', async () => {
    await expect(ReuseFile.open('/dev/null')).rejects.toThrow('found a device');
    await expect(ReuseFile.open('/dev/full')).rejects.toThrow('found a device');
    const server = createServer().listen(path('socket'));
    await expect(ReuseFile.open(path('socket'))).rejects.toThrow('found a socket');
    server.close();
    symlinkSync(path('nowhere'), path('dangling'));
    await expect(ReuseFile.open(path('dangling'))).rejects.toThrow(UsageError);
    expect(existsSync(path('nowhere'))).toBe(false);
  });

  test('that takes the place of ours meanwhile is neither written nor renamed', async () => {
    const file = path('taken');
    const warnings = await using(file, async (store) => {
      store.put(keyFor(1), answerFor(1));
      renameSync(file, `${file}.moved`);
      writeFileSync(file, 'my notes');
    });
    expect(warnings).toEqual([
      `${file}: found a file that begins with "my notes", expected no file, an empty one, or one in which Spillway keeps answers; nothing was changed; give another name; the run goes on, and no more answers are kept`,
    ]);
    expect(readFileSync(file, 'utf8')).toBe('my notes');
    const other = path('taken old');
    const late = await using(other, async (store) => {
      writeFileSync(`${other}.old`, 'my old notes');
      for (const number of upTo(1000)) store.put(keyFor(number), answerFor(number, 1000));
    });
    expect(late).toHaveLength(1);
    expect(readFileSync(`${other}.old`, 'utf8')).toBe('my old notes');
    expect(statSync(other).size).toBeLessThanOrEqual(LEAST / 2);
  });
});

describe('the bound', () => {
  test('holds for both files, and what is used stays', async () => {
    const file = path('bounded');
    const used = [0, 7, 14];
    for (let round = 0; round < 12; round += 1) {
      const warnings = await using(file, async (store) => {
        for (const number of used)
          if ((await store.get(keyFor(number))) === undefined) store.put(keyFor(number), answerFor(number, 1000));
        for (const number of upTo(250)) store.put(keyFor([round, number]), answerFor(number, 1000));
      });
      expect(warnings).toEqual([]);
      expect(statSync(file).size).toBeLessThanOrEqual(LEAST / 2);
      expect(statSync(`${file}.old`, { throwIfNoEntry: false })?.size ?? 0).toBeLessThanOrEqual(LEAST / 2);
      if (round > 0) await using(file, async (store) => expect(await numbersIn(store, 20, 1000)).toEqual(used));
    }
    await using(file, async (store) => {
      // Of the last round all is there, of the first nothing.
      for (const number of upTo(250)) expect(await store.get(keyFor([11, number]))).toEqual(answerFor(number, 1000));
      for (const number of upTo(250)) expect(await store.get(keyFor([0, number]))).toBeUndefined();
    });
    expect(
      readdirSync(path('.'))
        .filter((name) => name.startsWith('bounded'))
        .sort(),
    ).toEqual(['bounded', 'bounded.old']);
  });

  test('an answer that is larger than a file is not kept, and nothing else is lost by it', async () => {
    const file = path('too large');
    expect(
      await using(file, (store) => {
        store.put(keyFor(1), answerFor(1));
        store.put(keyFor('large'), { ...answerFor(2), text: 'x'.repeat(LEAST / 2) });
        store.put(keyFor(3), answerFor(3));
      }),
    ).toEqual([]);
    await using(file, async (store) => expect(await numbersIn(store, 5)).toEqual([1, 3]));
  });

  test('no more than 8 MiB wait: of what comes faster the rest is not kept', async () => {
    const file = path('fast');
    const warnings = await using(
      file,
      async (store) => {
        for (const number of upTo(100)) store.put(keyFor(number), answerFor(number, 200_000));
      },
      2 ** 30,
    );
    expect(warnings).toEqual([`${file}: answers come faster than they can be written; some are not kept`]);
    expect(statSync(file).size).toBeGreaterThan(7 * 2 ** 20);
    expect(statSync(file).size).toBeLessThan(9 * 2 ** 20);
  });

  test('while another process makes files anew what is put waits', async () => {
    const file = path('busy');
    await putAll(file, upTo(400), 1000);
    const lock = await acquireFileLock(`${file}.lock`, file);
    const store = await ReuseFile.open(file, { maxBytes: LEAST });
    for (const number of upTo(1200)) store.put(keyFor(number), answerFor(number, 1000));
    await sleep(50);
    expect(existsSync(`${file}.old`)).toBe(false);
    lock.release();
    await store.close();
    expect(existsSync(`${file}.old`)).toBe(true);
    await using(file, async (other) => expect(await other.get(keyFor(1199))).toEqual(answerFor(1199, 1000)));
  });
});

describe('several at once', () => {
  test('see what the others have written, after a second at most', async () => {
    const file = path('shared');
    let now = 5000;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
    try {
      const [one, other] = [await ReuseFile.open(file), await ReuseFile.open(file)];
      one.put(keyFor(1), answerFor(1));
      await one.close();
      now += 990;
      expect(await other.get(keyFor(1))).toBeUndefined();
      now += 20;
      expect(await other.get(keyFor(1))).toEqual(answerFor(1));
      await other.close();
    } finally {
      clock.mockRestore();
    }
  });

  test('notice that one has begun the file anew, and go on with the new one', async () => {
    const file = path('rotated');
    const open = (): Promise<ReuseFile> =>
      ReuseFile.open(file, {
        maxBytes: LEAST,
        onWarning: (message) => {
          throw new Error(message);
        },
      });
    const [one, other] = [await open(), await open()];
    for (const number of upTo(800)) one.put(keyFor(number), answerFor(number, 1000));
    await one.close();
    expect(existsSync(`${file}.old`)).toBe(true);
    const { ino } = statSync(file);
    other.put(keyFor('other'), answerFor(1));
    await other.close();
    expect(statSync(file).ino).toBe(ino);
    expect(readFileSync(file).includes(keyFor('other'))).toBe(true);
    await using(file, async (store) => expect(await store.get(keyFor('other'))).toEqual(answerFor(1)));
  });

  test('any order of putting, of many: nothing is lost as long as there is room', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(3), fc.nat(30), fc.nat(3)), { maxLength: 40 }),
        fc.uuid(),
        async (steps, name) => {
          const file = path(name);
          const stores = await Promise.all(upTo(4).map(() => ReuseFile.open(file)));
          for (const [by, number, pause] of steps) {
            stores[by]?.put(keyFor(number), answerFor(number));
            if (pause === 0) await stores[by]?.get(keyFor(number));
          }
          await Promise.all(stores.map((store) => store.close()));
          expect(
            await using(file, async (store) =>
              expect(await numbersIn(store, 31)).toEqual(
                [...new Set(steps.map(([, number]) => number))].sort((a, b) => a - b),
              ),
            ),
          ).toEqual([]);
        },
      ),
      { numRuns: 12 },
    );
  });

  test('make one file of one that is not there', async () => {
    const file = path('made');
    const stores = await Promise.all(upTo(6).map(() => ReuseFile.open(file)));
    for (const [number, store] of stores.entries()) store.put(keyFor(number), answerFor(number));
    await Promise.all(stores.map((store) => store.close()));
    expect(await using(file, async (store) => expect(await numbersIn(store, 6)).toEqual(upTo(6)))).toEqual([]);
  });

  test('what was removed is made anew', async () => {
    const file = path('removed');
    expect(
      await using(file, async (store) => {
        store.put(keyFor(1), answerFor(1));
        rmSync(file);
      }),
    ).toEqual([]);
    await using(file, async (store) => expect(await numbersIn(store, 3)).toEqual([1]));
    appendFileSync(file, 'x');
  });
});
