import { describe, expect, test } from '@jest/globals';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { DownloadError, ModelFileError } from '../../../src/errors/ModelFileError.js';
import { temporaryPath } from '../../../src/files/temporaryFiles.js';
import { pullModel } from '../../../src/model/pull/pullModel.js';
import { CONTENTS, failing, MODEL, source, temporaryFolder } from './pullFixtures.js';

/** Chunks whose failure comes after something else has ended. */
async function* behind(
  chunks: AsyncIterable<Uint8Array>,
  other: () => Promise<unknown>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* chunks;
  } catch (error) {
    await other();
    throw error;
  }
}

describe('pullModel', () => {
  test('keeps the file under its name, and nothing else', async () => {
    await using folder = await temporaryFolder();
    const path = await pullModel(MODEL, {
      folder: join(folder.path, 'not', 'there', 'yet'),
      sources: [source('a', CONTENTS)],
    });
    expect(path).toBe(join(folder.path, 'not', 'there', 'yet', 'tiny.gguf'));
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
    expect(await readdir(join(folder.path, 'not', 'there', 'yet'))).toEqual(['tiny.gguf']);
  });

  test('asks no source for a file that is there', async () => {
    await using folder = await temporaryFolder();
    await pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS)] });
    await expect(pullModel(MODEL, { folder: folder.path, sources: [failing('b', 'was asked')] })).resolves.toContain(
      'tiny.gguf',
    );
  });

  test('fetches a file of the wrong size again, and with verify one of the right size and wrong bytes', async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, 'tiny.gguf');
    await writeFile(path, 'short');
    await pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS)] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);

    await writeFile(path, Buffer.alloc(CONTENTS.length));
    await pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS)] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(false);
    await pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS)], verify: true });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
  });

  test.each([
    ['wrong bytes', source('first', Buffer.from(CONTENTS.toReversed()))],
    ['too few bytes', source('first', CONTENTS.subarray(0, 123_456))],
    ['too many bytes', source('first', Buffer.concat([CONTENTS, CONTENTS]))],
    ['an error in the middle', source('first', CONTENTS, { failAfter: 50_000 })],
    ['no answer', failing('first', 'getaddrinfo ENOTFOUND')],
  ])('goes on to the next source after %s', async (_, bad) => {
    await using folder = await temporaryFolder();
    const path = await pullModel(MODEL, { folder: folder.path, sources: [bad, source('second', CONTENTS)] });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
    expect(await readdir(folder.path)).toEqual(['tiny.gguf']);
  });

  test('names every source and cause when all fail, and leaves no file', async () => {
    await using folder = await temporaryFolder();
    const sources = [failing('hub', 'getaddrinfo ENOTFOUND'), source('wheel', Buffer.alloc(CONTENTS.length))];
    const error: unknown = await pullModel(MODEL, { folder: folder.path, sources }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DownloadError);
    expect(error).toBeInstanceOf(ModelFileError);
    const { message } = error as DownloadError;
    expect(message).toContain('tiny');
    expect(message).toContain('hub: getaddrinfo ENOTFOUND');
    expect(message).toMatch(/wheel: sha256 is [0-9a-f]{64}, expected /);
    expect(await readdir(folder.path)).toEqual([]);
  });

  test('skips a source that does not have the model', async () => {
    await using folder = await temporaryFolder();
    const without = { ...failing('without', 'was asked'), has: () => false };
    await expect(pullModel(MODEL, { folder: folder.path, sources: [without, failing('b', 'no')] })).rejects.toThrow(
      /^(?!.*was asked).*b: no/,
    );
  });

  test('resumes what an interrupted call left, and begins anew where a source cannot', async () => {
    await using folder = await temporaryFolder();
    const offsets: number[] = [];
    const broken = source('hub', CONTENTS, { resumes: true, failAfter: 120_000, offsets });
    await expect(pullModel(MODEL, { folder: folder.path, sources: [broken] })).rejects.toThrow('broke off');
    expect(await readdir(folder.path)).toEqual(['tiny.gguf.partial']);

    const path = await pullModel(MODEL, {
      folder: folder.path,
      sources: [
        source('hub', CONTENTS, { resumes: true, failAfter: 200_000, offsets }),
        source('wheel', CONTENTS, { offsets }),
      ],
    });
    expect(offsets).toEqual([0, 120_000, 200_000]);
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
    expect(await readdir(folder.path)).toEqual(['tiny.gguf']);
  });

  test('a leftover that does not belong to the file costs one source, not the download', async () => {
    await using folder = await temporaryFolder();
    await writeFile(join(folder.path, 'tiny.gguf.partial'), Buffer.alloc(70_000, 7));
    const path = await pullModel(MODEL, {
      folder: folder.path,
      sources: [source('hub', CONTENTS, { resumes: true }), source('wheel', CONTENTS)],
    });
    expect((await readFile(path)).equals(CONTENTS)).toBe(true);
  });

  test('goes on with what a killed process had, and removes what it needed beside it, not what others at work have', async () => {
    await using folder = await temporaryFolder();
    const target = join(folder.path, 'tiny.gguf');
    const [gone, mine] = [temporaryPath(target).replace(`.${process.pid}-`, `.${2 ** 22 + 1}-`), temporaryPath(target)];
    for (const path of [gone, mine]) await writeFile(path, CONTENTS.subarray(0, 90_000));
    await mkdir(temporaryPath(`${target}.work`).replace(`.${process.pid}-`, `.${2 ** 22 + 1}-`));
    await writeFile(join(folder.path, 'other.gguf.1-0.tmp'), 'x');
    const offsets: number[] = [];
    await pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS, { resumes: true, offsets })] });
    expect(offsets).toEqual([90_000]);
    expect((await readFile(target)).equals(CONTENTS)).toBe(true);
    expect((await readdir(folder.path)).sort()).toEqual(['other.gguf.1-0.tmp', 'tiny.gguf', basename(mine)].sort());
    // Also where there is nothing to fetch any more.
    await writeFile(gone, 'x');
    await writeFile(`${target}.partial`, 'x');
    await pullModel(MODEL, { folder: folder.path, sources: [] });
    expect((await readdir(folder.path)).sort()).toEqual(['other.gguf.1-0.tmp', 'tiny.gguf', basename(mine)].sort());
  });

  test('many calls at once end in one right file', async () => {
    await using folder = await temporaryFolder();
    const pulls = Array.from({ length: 8 }, () =>
      pullModel(MODEL, { folder: folder.path, sources: [source('a', CONTENTS, { resumes: true })] }),
    );
    const paths = await Promise.all(pulls);
    expect(new Set(paths).size).toBe(1);
    expect((await readFile(join(folder.path, 'tiny.gguf'))).equals(CONTENTS)).toBe(true);
    expect(await readdir(folder.path)).toEqual(['tiny.gguf']);
  });

  test('an attempt that breaks off while another succeeds leaves nothing behind, whichever ends first', async () => {
    for (const [slow, fast] of [
      ['hub', 'wheel'],
      ['wheel', 'hub'],
    ]) {
      await using folder = await temporaryFolder();
      let there: Promise<unknown> | undefined;
      const other = (): Promise<unknown> =>
        (there ??= pullModel(MODEL, { folder: folder.path, sources: [source(fast ?? '', CONTENTS)] }));
      const broken = source(slow ?? '', CONTENTS, {
        failAfter: 120_000,
        onChunk: (at) => {
          if (at >= 50_000) void other();
        },
      });
      const breaking = {
        ...broken,
        open: async (request: Parameters<typeof broken.open>[0]) => {
          const { offset, chunks } = await broken.open(request);
          return { offset, chunks: slow === 'hub' ? behind(chunks, other) : chunks };
        },
      };
      await pullModel(MODEL, { folder: folder.path, sources: [breaking] }).catch(() => undefined);
      await other();
      expect(await readdir(folder.path)).toEqual(['tiny.gguf']);
    }
  });

  test('ends with InterruptedError when the signal fires, before and in the middle', async () => {
    await using folder = await temporaryFolder();
    await expect(pullModel(MODEL, { folder: folder.path, signal: AbortSignal.abort() })).rejects.toBeInstanceOf(
      InterruptedError,
    );
    const controller = new AbortController();
    const pull = pullModel(MODEL, {
      folder: folder.path,
      signal: controller.signal,
      sources: [
        source('a', CONTENTS, {
          onChunk: (at) => {
            if (at === 50_000) controller.abort();
          },
        }),
        failing('b', 'was asked'),
      ],
    });
    await expect(pull).rejects.toBeInstanceOf(InterruptedError);
    expect(await readdir(folder.path)).toEqual(['tiny.gguf.partial']);
  });

  test('reports progress that only grows and ends at the whole file', async () => {
    await using folder = await temporaryFolder();
    const seen: number[] = [];
    await pullModel(MODEL, {
      folder: folder.path,
      sources: [source('a', CONTENTS)],
      onProgress: (progress) => {
        expect(progress).toMatchObject({ model: 'tiny', source: 'a', totalBytes: CONTENTS.length });
        seen.push(progress.bytes);
      },
    });
    expect(seen[0]).toBe(0);
    expect(seen.at(-1)).toBe(CONTENTS.length);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  });
});
