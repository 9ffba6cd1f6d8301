import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { acquireFileLock } from '../../src/jobs/fileLock.js';
import { temporaryFolder } from './support/files.js';

const path = temporaryFolder();

interface Holder {
  pid: number;
  machine: string;
  started: string;
  nonce: string;
}

function ownHolder(): Holder {
  const lock = acquireFileLock(path('probe'), 'probe');
  const holder = JSON.parse(readFileSync(path('probe'), 'utf8')) as Holder;
  lock.release();
  return holder;
}

describe('acquireFileLock', () => {
  test('excludes, and lets go', () => {
    const file = path('a');
    const lock = acquireFileLock(file, 'out.jsonl');
    expect(() => acquireFileLock(file, 'out.jsonl')).toThrow(`out.jsonl is in use by process ${process.pid}`);
    lock.release();
    expect(existsSync(file)).toBe(false);
    acquireFileLock(file, 'out.jsonl').release();
  });

  test('takes over the lock of a process that has ended, and of one whose number another process has now', async () => {
    const file = path('b');
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    writeFileSync(file, JSON.stringify({ ...ownHolder(), pid: child.pid, started: '1' }));
    acquireFileLock(file, 'out').release();
    writeFileSync(file, JSON.stringify({ ...ownHolder(), started: '1' }));
    // Where the kernel does not tell when a process started, a reused number cannot be seen.
    if (existsSync('/proc/self/stat')) acquireFileLock(file, 'out').release();
    else expect(() => acquireFileLock(file, 'out')).toThrow(UsageError);
    expect(readdirSync(path('.')).filter((name) => name.startsWith('b.'))).toEqual([]);
  });

  test('leaves the lock of a living process alone', () => {
    const file = path('c');
    const content = JSON.stringify({ ...ownHolder(), pid: process.ppid, started: '' });
    writeFileSync(file, content);
    expect(() => acquireFileLock(file, 'out')).toThrow(`in use by process ${process.ppid}`);
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test('believes the lock of another machine while it is touched', () => {
    const file = path('d');
    writeFileSync(file, JSON.stringify({ ...ownHolder(), machine: 'elsewhere' }));
    expect(() => acquireFileLock(file, 'out')).toThrow(UsageError);
    const old = new Date(Date.now() - 61_000);
    utimesSync(file, old, old);
    acquireFileLock(file, 'out').release();
  });

  test('leaves a file alone that is no lock, however old', () => {
    for (const content of ['', '{"pid":"x"}', 'null', '{"pid":-1,"machine":""}', '{"prompt":"a row"}\n', 'x'.repeat(10_000)]) {
      const file = path('foreign.lock');
      writeFileSync(file, content);
      const old = new Date(Date.now() - 3_600_000);
      utimesSync(file, old, old);
      expect(() => acquireFileLock(file, 'out')).toThrow(/foreign\.lock: found ".*", expected no file or the lock of a Spillway job, as the one of out goes there; remove the file/);
      expect(readFileSync(file, 'utf8')).toBe(content);
    }
    expect(() => acquireFileLock(path('.'), 'out')).toThrow(JobFileError);
  });

  test('releasing after somebody else took over does not take their lock away', () => {
    const file = path('e');
    const lock = acquireFileLock(file, 'out');
    const other = JSON.stringify({ ...ownHolder(), nonce: 'other' });
    writeFileSync(file, other);
    lock.release();
    expect(readFileSync(file, 'utf8')).toBe(other);
  });

  test('a folder that is not there is a JobFileError', () => {
    expect(() => acquireFileLock(path('none/lock'), 'out')).toThrow(JobFileError);
  });
});
