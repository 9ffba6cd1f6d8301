import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../src/errors/JobFileError.js';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { acquireFileLock, releaseLocks } from '../../src/files/fileLock.js';
import { temporaryPath } from '../../src/files/temporaryFiles.js';
import { temporaryFolder } from '../jobs/support/files.js';

const path = temporaryFolder();

interface Holder {
  pid: number;
  machine: string;
  started: string;
  nonce: string;
}

async function ownHolder(): Promise<Holder> {
  const lock = await acquireFileLock(path('probe'), 'probe');
  const holder = JSON.parse(readFileSync(path('probe'), 'utf8')) as Holder;
  lock.release();
  return holder;
}

describe('acquireFileLock', () => {
  test('excludes, and lets go', async () => {
    const file = path('a');
    const lock = await acquireFileLock(file, 'out.jsonl');
    await expect(acquireFileLock(file, 'out.jsonl')).rejects.toThrow(`out.jsonl is in use by process ${process.pid}`);
    lock.release();
    expect(existsSync(file)).toBe(false);
    (await acquireFileLock(file, 'out.jsonl')).release();
  });

  test('takes over the lock of a process that has ended, and of one whose number another process has now', async () => {
    const file = path('b');
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    writeFileSync(file, JSON.stringify({ ...(await ownHolder()), pid: child.pid, started: '1' }));
    (await acquireFileLock(file, 'out')).release();
    writeFileSync(file, JSON.stringify({ ...(await ownHolder()), started: '1' }));
    // Where the kernel does not tell when a process started, a reused number cannot be seen.
    if (existsSync('/proc/self/stat')) (await acquireFileLock(file, 'out')).release();
    else await expect(acquireFileLock(file, 'out')).rejects.toThrow(UsageError);
    expect(readdirSync(path('.')).filter((name) => name.startsWith('b.'))).toEqual([]);
  });

  (existsSync('/proc/self/stat') ? test : test.skip)(
    'takes over the lock of a process that has ended and that its parent has not asked after',
    async () => {
      const file = path('zombie');
      // The first ends when the shell has become the second, which never asks. (A shell asks after what ends before.)
      const parent = spawn('sh', ['-c', 'sleep 1 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const stat = (): string => readFileSync(`/proc/${Number(line.toString())}/stat`, 'utf8');
      while (!stat().includes(') Z ')) await new Promise((resolve) => setTimeout(resolve, 5));
      const started = stat()
        .slice(stat().lastIndexOf(')') + 2)
        .split(' ')[19];
      writeFileSync(file, JSON.stringify({ ...(await ownHolder()), pid: Number(line.toString()), started }));
      (await acquireFileLock(file, 'out')).release();
      expect(existsSync(file)).toBe(false);
      parent.kill();
    },
  );

  test('removes the temporary files that killed processes left, and no others', async () => {
    const file = path('left');
    const own = temporaryPath(file);
    const machine = /-([0-9a-f]{8})/.exec(own)?.[1] ?? '';
    const gone = spawnSync('true').pid;
    const old = new Date(Date.now() - 7_200_000);
    const ages: [string, Date, boolean][] = [
      [own, old, true],
      [`${file}.${gone}-${machine}00000001.tmp`, new Date(), false],
      [`${file}.${gone}-0000000000000002.tmp`, new Date(), true],
      [`${file}.${gone}-0000000000000003.tmp`, old, false],
      [`${file}.${gone}.tmp`, old, true],
      [`${file}2.${gone}-${machine}00000004.tmp`, old, true],
    ];
    for (const [name, time] of ages) {
      writeFileSync(name, '');
      utimesSync(name, time, time);
    }
    (await acquireFileLock(file, 'out')).release();
    expect(ages.map(([name]) => [name, existsSync(name)])).toEqual(ages.map(([name, , stays]) => [name, stays]));
  });

  test('leaves the lock of a living process alone', async () => {
    const file = path('c');
    const content = JSON.stringify({ ...(await ownHolder()), pid: process.ppid, started: '' });
    writeFileSync(file, content);
    await expect(acquireFileLock(file, 'out')).rejects.toThrow(`in use by process ${process.ppid}`);
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test('takes over the lock of a thread of this process that has ended: nothing has it open any more', async () => {
    const file = path('f');
    writeFileSync(file, JSON.stringify({ ...(await ownHolder()), nonce: 'of a thread that was terminated' }));
    const lock = await acquireFileLock(file, 'out');
    await expect(acquireFileLock(file, 'out')).rejects.toThrow(`in use by process ${process.pid}`);
    lock.release();
  });

  describe('the lock of another machine', () => {
    const times = { heartbeatSeconds: 0.2, staleSeconds: 60 };
    let file: string;
    const touch = (secondsAgo: number): void => {
      const time = new Date(Date.now() - secondsAgo * 1000);
      utimesSync(file, time, time);
    };
    beforeEach(async () => {
      file = path('d');
      writeFileSync(file, JSON.stringify({ ...(await ownHolder()), machine: 'elsewhere' }));
    });

    test('is believed at once where it was touched lately', async () => {
      await expect(acquireFileLock(file, 'out', { ...times, heartbeatSeconds: 1000 })).rejects.toThrow(UsageError);
    });

    // The holder's clock, or this one, may be set to another time, or never have been right.
    test.each([61, 86_400, -86_400])(
      'is believed while it is touched, though its time is %d seconds ago',
      async (secondsAgo) => {
        touch(secondsAgo);
        const holder = setInterval(() => touch(secondsAgo), times.heartbeatSeconds * 1000);
        await expect(acquireFileLock(file, 'out', times)).rejects.toThrow('is in use by process');
        clearInterval(holder);
      },
    );

    test.each([61, 86_400, -86_400])(
      'lapses when it is not touched any more, at a time %d seconds ago',
      async (secondsAgo) => {
        touch(secondsAgo);
        (await acquireFileLock(file, 'out', times)).release();
      },
    );

    test('is not waited for after an interrupt', async () => {
      touch(61);
      await expect(
        acquireFileLock(file, 'out', { ...times, heartbeatSeconds: 1000, signal: AbortSignal.timeout(20) }),
      ).rejects.toThrow(InterruptedError);
    });

    test('is touched by its holder', async () => {
      const lock = await acquireFileLock(path('g'), 'out', times);
      const { mtimeMs } = statSync(path('g'));
      while (statSync(path('g')).mtimeMs === mtimeMs) await new Promise((resolve) => setTimeout(resolve, 20));
      lock.release();
    });
  });

  test('leaves a file alone that is no lock, however old', async () => {
    for (const content of [
      '',
      '{"pid":"x"}',
      'null',
      '{"pid":-1,"machine":""}',
      '{"prompt":"a row"}\n',
      'x'.repeat(10_000),
    ]) {
      const file = path('foreign.lock');
      writeFileSync(file, content);
      const old = new Date(Date.now() - 3_600_000);
      utimesSync(file, old, old);
      await expect(acquireFileLock(file, 'out')).rejects.toThrow(
        /foreign\.lock: found ".*", expected no file or the lock of a Spillway job, as the one of out goes there; remove the file/,
      );
      expect(readFileSync(file, 'utf8')).toBe(content);
    }
    await expect(acquireFileLock(path('.'), 'out')).rejects.toThrow(JobFileError);
  });

  test('a lock that cannot be removed any more is a JobFileError, and those behind it are let go', async () => {
    const [closed, open] = [mkdtempSync(join(tmpdir(), 'closed-')), mkdtempSync(join(tmpdir(), 'open-'))];
    for (const folder of [closed, open]) chmodSync(folder, 0o777);
    const root = process.getuid?.() === 0;
    const nobody = (): void => {
      if (root) process.seteuid?.(65_534);
    };
    const owner = (): void => {
      if (root) process.seteuid?.(0);
    };
    try {
      nobody();
      const [stuck, other] = [join(closed, 'o.lock'), join(open, 'o.lock')];
      const locks = [await acquireFileLock(stuck, 'o'), await acquireFileLock(other, 'o')];
      owner();
      chmodSync(closed, 0o555);
      nobody();
      expect(() => {
        releaseLocks(locks);
      }).toThrow(`${stuck}: cannot be removed: permission denied (EACCES)`);
      expect([stuck, other].map((path) => existsSync(path))).toEqual([true, false]);
    } finally {
      owner();
      chmodSync(closed, 0o755);
      for (const folder of [closed, open]) rmSync(folder, { recursive: true });
    }
  });

  test('releasing after somebody else took over does not take their lock away', async () => {
    const file = path('e');
    const lock = await acquireFileLock(file, 'out');
    const other = JSON.stringify({ ...(await ownHolder()), nonce: 'other' });
    writeFileSync(file, other);
    lock.release();
    expect(readFileSync(file, 'utf8')).toBe(other);
  });

  test('a folder that is not there is a JobFileError', async () => {
    await expect(acquireFileLock(path('none/lock'), 'out')).rejects.toThrow(JobFileError);
  });
});
