import { open } from 'node:fs/promises';
import { appendFileSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { JournalWriter, type WritableFile } from '../../../src/jobs/output/JournalWriter.js';
import { temporaryFolder } from '../support/files.js';

const path = temporaryFolder();

const ANYWHERE = async (): Promise<void> => undefined;

/** A file that holds `capacity` bytes, takes at most `chunk` at once, and then is full. */
class SmallDisk {
  content = Buffer.alloc(0);
  writes = 0;
  synced = 0;
  closed = false;

  constructor(
    public capacity: number,
    private readonly chunk = Infinity,
  ) {}

  readonly file = {
    write: async (data: Buffer, offset: number, length: number, position: number) => {
      await Promise.resolve();
      this.writes += 1;
      const bytesWritten = Math.min(length, this.chunk, this.capacity - position);
      if (bytesWritten <= 0) throw Object.assign(new Error('write'), { code: 'ENOSPC' });
      this.content = Buffer.concat([this.content.subarray(0, position), data.subarray(offset, offset + bytesWritten)]);
      return { bytesWritten, buffer: data };
    },
    truncate: async (length = 0) => {
      this.content = this.content.subarray(0, length);
    },
    datasync: async () => {
      this.synced += 1;
    },
    stat: async () => ({ size: BigInt(this.content.length) }),
    close: async () => {
      this.closed = true;
    },
  } as unknown as WritableFile;
}

describe('JournalWriter', () => {
  test('writes every line, in order, from the position that it is given', async () => {
    const file = path('out');
    const handle = await open(file, 'w+');
    await handle.write('before\nrest that a resumed run overwrites');
    await handle.truncate(7);
    const writer = new JournalWriter(handle, file, 7);
    const lines = Array.from({ length: 2000 }, (_, at) => `line ${at} ${'x'.repeat(at % 700)}\n`);
    for (const line of lines) await writer.write(line);
    await writer.close();
    expect(readFileSync(file, 'utf8')).toBe(`before\n${lines.join('')}`);
  });

  test('a line is on its way without waiting for another one or for the end', async () => {
    const disk = new SmallDisk(1000);
    const writer = new JournalWriter(disk.file, 'out', 0, ANYWHERE);
    await writer.write('one\n');
    // Else this comes to no end.
    while (disk.content.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(disk.content.toString()).toBe('one\n');
    await writer.close();
    expect([disk.synced, disk.closed]).toEqual([1, true]);
  });

  test('lines that come while one is being written go together', async () => {
    const disk = new SmallDisk(1e6);
    const writer = new JournalWriter(disk.file, 'out', 0, ANYWHERE);
    await Promise.all(Array.from({ length: 1000 }, (_, at) => writer.write(`${at}\n`)));
    await writer.close();
    expect(disk.content.toString().split('\n')).toHaveLength(1001);
    expect(disk.writes).toBeLessThan(10);
  });

  test.each([1, 3, 7, Infinity])(
    'a full disk (%d bytes at once): an error that names the file, and the file ends in a whole line',
    async (chunk) => {
      const disk = new SmallDisk(25, chunk);
      const writer = new JournalWriter(disk.file, 'answers.jsonl', 0, ANYWHERE);
      const failure: unknown = await (async () => {
        for (let at = 0; at < 10; at += 1) {
          await writer.write(`line ${at}\n`);
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      })().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(JobFileError);
      expect(String(failure)).toContain(
        'answers.jsonl: cannot be written: no space left on the device (ENOSPC); the rows before are intact, and `resume` goes on',
      );
      expect(disk.content.toString()).toBe('line 0\nline 1\nline 2\n');
      await expect(writer.write('more\n')).rejects.toBe(failure);
      await expect(writer.close()).rejects.toBe(failure);
      expect(disk.content.toString()).toBe('line 0\nline 1\nline 2\n');
      expect(disk.closed).toBe(true);
    },
  );

  test.each([1, 4, Infinity])(
    'a disk (%d bytes at once) that has room again when the run has ended gets what it could not take, in order',
    async (chunk) => {
      const disk = new SmallDisk(25, chunk);
      const writer = new JournalWriter(disk.file, 'answers.jsonl', 0, ANYWHERE);
      const refused: unknown[] = [];
      for (let at = 0; at < 10; at += 1) {
        await writer.write(`line ${at}\n`).catch((error: unknown) => refused.push(error));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      expect(refused.length).toBeGreaterThan(0);
      expect(disk.content.toString()).toBe('line 0\nline 1\nline 2\n');
      disk.capacity = 1000;
      await writer.close();
      expect(disk.content.toString()).toBe(Array.from({ length: 10 }, (_, at) => `line ${at}\n`).join(''));
      expect(disk.closed).toBe(true);
    },
  );

  test('a failure that only `close` can meet is reported by it', async () => {
    const disk = new SmallDisk(3);
    const writer = new JournalWriter(disk.file, 'out', 0, ANYWHERE);
    await writer.write('too long\n');
    await expect(writer.close()).rejects.toThrow('no space left');
    expect(disk.content.toString()).toBe('');
  });

  test.each<[string, (file: string) => void, boolean, RegExp]>([
    ['removed', (file) => rmSync(file), true, /was removed during the run/],
    ['moved away', (file) => renameSync(file, `${file}.away`), false, /was removed during the run/],
    [
      'replaced',
      (file) => {
        writeFileSync(`${file}.new`, 'ONE\n');
        renameSync(`${file}.new`, file);
      },
      true,
      /was replaced by another file during the run/,
    ],
    [
      'emptied',
      (file) => truncateSync(file, 0),
      true,
      /was cut, or written to by somebody else \(found 0 bytes, wrote 4\)/,
    ],
    [
      'cut',
      (file) => truncateSync(file, 2),
      false,
      /was cut, or written to by somebody else \(found 2 bytes, wrote 4\)/,
    ],
    [
      'appended to',
      (file) => appendFileSync(file, 'of somebody else\n'),
      true,
      /was cut, or written to by somebody else \(found 21 bytes, wrote 4\)/,
    ],
  ])('a file that is %s meanwhile is noticed', async (how, meddle, goesOn, words) => {
    const file = path(how);
    const writer = new JournalWriter(await open(file, 'w+'), file, 0);
    await writer.write('one\n');
    while (statSync(file).size < 4) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 20));
    meddle(file);
    if (goesOn) await writer.write('two\n').catch(() => undefined);
    const error: unknown = await writer.close().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(JobFileError);
    expect(String(error)).toMatch(words);
  });
});
