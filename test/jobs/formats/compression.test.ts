import { execFileSync, spawnSync } from 'node:child_process';
import zlib, { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { decompressed, type Compression } from '../../../src/jobs/formats/compression.js';
import { failureOf } from './support.js';

async function* cut(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.alloc(size);
  // The same buffer each time, as those who read files give it.
  for (let at = 0; at < bytes.length; at += size)
    yield buffer.subarray(0, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).copy(buffer, 0, at));
}

async function textOf(bytes: Uint8Array, compression: Compression, size: number): Promise<string> {
  const parts: Buffer[] = [];
  for await (const chunk of decompressed(cut(bytes, size), compression, 'rows'))
    parts.push(Buffer.from(chunk as Uint8Array));
  return Buffer.concat(parts).toString();
}

const LONG = 'a line that says something\n'.repeat(20_000);
const SIZES = [1, 7, 4096, 2 ** 20];

describe('gzip', () => {
  test.each(SIZES)('members, padding of zeros up to the end, a member behind zeros, in chunks of %d', async (size) => {
    const [one, two, zeros] = [gzipSync('one\n'), gzipSync('two\n'), Buffer.alloc(700)];
    expect(await textOf(Buffer.concat([one, two]), 'gzip', size)).toBe('one\ntwo\n');
    expect(await textOf(Buffer.concat([one, two, zeros]), 'gzip', size)).toBe('one\ntwo\n');
    expect(await textOf(Buffer.concat([one, zeros, two, zeros]), 'gzip', size)).toBe('one\ntwo\n');
    if (size > 1)
      expect(await textOf(Buffer.concat([gzipSync(LONG), Buffer.alloc(1), gzipSync(LONG)]), 'gzip', size)).toBe(
        LONG + LONG,
      );
  });

  test.each(SIZES)('what is no member, and what is cut off, is an error, in chunks of %d', async (size) => {
    const whole = gzipSync('one\n');
    for (const [bytes, words] of [
      [Buffer.concat([whole, Buffer.alloc(1), Buffer.from('rest')]), 'incorrect header check'],
      [Buffer.concat([whole, Buffer.from('rest')]), 'incorrect header check'],
      [Buffer.concat([whole, Buffer.alloc(3), whole.subarray(0, 12)]), 'unexpected end of file'],
      [whole.subarray(0, 12), 'unexpected end of file'],
      [Buffer.alloc(20), 'incorrect header check'],
    ] as const) {
      const error = await failureOf(textOf(bytes, 'gzip', size));
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toBe(`rows: cannot be decompressed: ${words}; expected a whole file in the format of gzip`);
    }
  });
});

/** As the program writes it; where it is missing, by Node. */
const PROGRAM = spawnSync('zstd', ['--version']).status === 0;
const zstd = (text: string, ...flags: string[]): Buffer =>
  execFileSync('zstd', ['-q', '-c', ...flags], { input: text });
const CAN = PROGRAM && 'createZstdDecompress' in zlib;

(CAN ? describe : describe.skip)('zstd', () => {
  test.each(SIZES)(
    'frames one behind another, with and without checksums, and those that hold no data, in chunks of %d',
    async (size) => {
      const text = size === 1 ? 'short\n' : LONG;
      const skippable = Buffer.concat([Buffer.from([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0]), Buffer.from('abc')]);
      const frames = Buffer.concat([
        zstd('one\n'),
        skippable,
        zstd(text, '--no-check'),
        zstd(text, '-19', '--long'),
        zstd('x'.repeat(300_000)),
        skippable,
      ]);
      expect(await textOf(frames, 'zstd', size)).toBe(`one\n${text}${text}${'x'.repeat(300_000)}`);
      expect(await textOf(zstd(''), 'zstd', size)).toBe('');
    },
  );

  test.each(SIZES)('what is no frame, and what is cut off anywhere, is an error, in chunks of %d', async (size) => {
    const [one, two] = [zstd('one\n'), zstd('two\n')];
    for (let end = 1; end < two.length; end += 1) {
      expect((await failureOf(textOf(Buffer.concat([one, two.subarray(0, end)]), 'zstd', size))).message).toMatch(
        /^rows: cannot be decompressed: (unexpected end of file|found [0-9a-f]{2,6} where)/,
      );
    }
    expect((await failureOf(textOf(Buffer.concat([one, Buffer.alloc(8)]), 'zstd', size))).message).toContain(
      'found 00000000 where a frame of zstd begins, expected 28b52ffd',
    );
    const damaged = Buffer.from(two);
    damaged[two.length - 1] = (damaged[two.length - 1] ?? 0) ^ 1;
    expect(await failureOf(textOf(damaged, 'zstd', size))).toBeInstanceOf(JobFileError);
  });
});
