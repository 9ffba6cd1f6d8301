import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { ProcessLimitError } from '../src/errors/ProcessLimitError.js';
import { checkHeapSize, checkProcessLimits, processLimits, withProcessLimits } from '../src/processLimits.js';
import { resultOf, TINY_MODEL } from './cli/support.js';
import { built } from './jobs/support/built.js';
import { temporaryFolder } from './jobs/support/files.js';

const MIB = 2 ** 20;
const path = temporaryFolder();
const STATUS = 'VmSize:\t  600000 kB\nVmData:\t  100000 kB\n';
const limits = (address: string, data: string): string =>
  `Limit                     Soft Limit           Hard Limit           Units
Max data size             ${data.padEnd(21)}unlimited            bytes
Max address space         ${address.padEnd(21)}unlimited            bytes
`;
const read = (address: string, data: string) => (name: string) => (name === 'limits' ? limits(address, data) : STATUS);

describe('limits of the process', () => {
  test('are those that are set, with what is used of them; none where there is no /proc', () => {
    expect(processLimits(read('unlimited', 'unlimited'))).toEqual([]);
    expect(processLimits(read('1073741824', '536870912'))).toEqual([
      { what: 'address space', flag: '-v', limitBytes: 1024 * MIB, usedBytes: 600_000 * 1024 },
      { what: 'data', flag: '-d', limitBytes: 512 * MIB, usedBytes: 100_000 * 1024 },
    ]);
    const none = (): never => {
      throw new Error('ENOENT');
    };
    expect(processLimits(none)).toEqual([]);
  });

  test('are refused where they are too small, with a value that is not', () => {
    const found = processLimits(read('1073741824', 'unlimited'));
    expect(() => checkProcessLimits(400 * MIB, found)).not.toThrow();
    expect(() => checkProcessLimits(3000 * MIB, found)).toThrow(
      /limited to 1 GiB of address space \(ulimit -v 1048576\).*expected .*\(ulimit -v 4259840\), or unlimited/,
    );
    expect(() => checkProcessLimits(500 * MIB, processLimits(read('unlimited', '536870912')))).toThrow('ulimit -d');
  });

  test('explain a failure for want of memory, and no other', () => {
    const tight = processLimits(read('700000000', 'unlimited'));
    const failure = new Error('cannot start the thread spillway-cpu: Resource temporarily unavailable');
    expect(withProcessLimits(failure, MIB, tight)).toBeInstanceOf(ProcessLimitError);
    expect(withProcessLimits(failure, MIB, [])).toBe(failure);
    const other = new Error('bad magic');
    expect(withProcessLimits(other, MIB, tight)).toBe(other);
  });

  test('of the heap follow from the vocabulary', () => {
    expect(() => checkHeapSize(49_152, 108 * MIB)).not.toThrow();
    expect(() => checkHeapSize(49_152, 88 * MIB)).toThrow('--max-old-space-size=40), which is too little: expected');
    expect(() => checkHeapSize(0, 48 * MIB + 16 * MIB)).toThrow('--max-old-space-size=40 or more');
  });
});

const onLinux = process.platform === 'linux' ? describe : describe.skip;
onLinux('a run under limits works, or says in a sentence what would', () => {
  const args = (output: string): string[] => {
    writeFileSync(path('in.jsonl'), '{"tokens":[1,2,3]}\n');
    return ['generate', '--model', TINY_MODEL, '--input', path('in.jsonl'), '--output', path(output)];
  };
  const outcome = async (child: ReturnType<typeof spawn>): Promise<{ code: number | null; stderr: string }> =>
    resultOf(child);

  test.each([900_000, 1_100_000, 1_300_000, 4_000_000])('ulimit -v %d', async (kibibytes) => {
    const limited = (command: string, more: string[]): string[] => [
      '-c',
      `ulimit -v ${kibibytes} && ${command}`,
      ...more,
    ];
    // V8 itself takes more on some machines: then no program of ours ever runs.
    if (spawnSync('/bin/sh', limited('exec "$0" -e 0', [process.execPath])).status !== 0) return;
    const command = limited('exec "$0" "$@"', [process.execPath, built('cli/main.js'), ...args(`${kibibytes}.jsonl`)]);
    const { code, stderr } = await outcome(spawn('/bin/sh', command, { stdio: 'pipe' }));
    expect([0, 3]).toContain(code);
    if (code === 3)
      expect(stderr).toMatch(new RegExp(`^error: this process is limited to .*ulimit -v ${kibibytes}\\).*expected`));
    if (kibibytes === 4_000_000) expect(code).toBe(0);
  });

  test.each([30, 64])('--max-old-space-size=%d', async (mebibytes) => {
    const command = [`--max-old-space-size=${mebibytes}`, built('cli/main.js'), ...args(`heap${mebibytes}.jsonl`)];
    const { code, stderr } = await outcome(spawn(process.execPath, command, { stdio: 'pipe' }));
    expect({ code, stderr }).toEqual(
      mebibytes === 30
        ? { code: 3, stderr: expect.stringContaining('the JavaScript heap is limited to') }
        : { code: 0, stderr: expect.stringContaining('1 row') },
    );
  });
});
