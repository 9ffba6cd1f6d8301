import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parseHardware } from '../../src/plan/HardwareProfile.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { resultOf, runCli, startCli } from './support.js';

const path = temporaryFolder();
/** Profiles are kept here. */
const home = { XDG_CACHE_HOME: path('cache') };

describe('profile', () => {
  test('a hardware file on stdout and in a file, which plan takes; and this machine is remembered', async () => {
    // The disk's folder is a file: it is left out, and the rest goes on.
    writeFileSync(path('file'), '');
    const { code, stdout, stderr } = await runCli(
      ['profile', '--quick', '--disk', path('file'), '--json', '--output', path('machine.json'), '--progress', 'off'],
      '',
      home,
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(readFileSync(path('machine.json'), 'utf8')).toBe(stdout);
    const profile = parseHardware(JSON.parse(stdout), 'stdout');
    expect(profile.cpu.matmul.length).toBeGreaterThanOrEqual(20);
    expect(profile).toMatchObject({
      links: {},
      memory: { diskBytes: 0 },
      leftOut: { disk: expect.stringContaining(path('file')) as unknown },
    });

    const plan = [
      'plan',
      '--model',
      'opt-125m',
      '--prompt-tokens',
      '32',
      '--max-new-tokens',
      '8',
      '--rows',
      '16',
      '--disk-memory',
      '0',
      '--json',
    ];
    const given = await runCli([...plan, '--hardware', path('machine.json')], '', home);
    expect(given.code).toBe(0);
    // Beside other tests the machine is busy, and it says so.
    expect(given.stderr).toMatch(/^(this machine was busy when it was measured [^\n]*\n)?$/);
    // The cache folder is on the same file system as that folder would have been, so the same profile is used.
    const here = await runCli(plan, '', home);
    const speed = (text: string): number =>
      (JSON.parse(text) as { predicted: { tokensPerSecond: number } }).predicted.tokensPerSecond;
    expect(here.code).toBe(0);
    expect(speed(here.stdout)).toBeCloseTo(speed(given.stdout), 6);
  });

  test('words, and progress on stderr', async () => {
    const { code, stdout, stderr } = await runCli(
      ['profile', '--quick', '--disk', path('disk'), '--disk-size', '16MiB', '--progress', 'on'],
      '',
      home,
    );
    expect(code).toBe(0);
    expect(readdirSync(path('disk'))).toEqual([]);
    for (const word of [
      'processor',
      'memory, read',
      'disk, read',
      'products, GFLOP/s',
      'q4, ',
      '256 tokens',
      'spread',
      '±',
    ])
      expect(stdout).toContain(word);
    expect(stderr).toMatch(/^measuring this machine: \d+\/\d+, /);
  });

  test.each([
    [['--disk-size', 'much'], 1, 'Expected a size'],
    [['--disk-size', '2GiB'], 1, 'expected at most 1GiB'],
    [['--threads', '0'], 1, 'Expected a whole number from 1 to 1024'],
    [['--fast'], 1, 'unknown option'],
    [['--output', path('none/machine.json')], 2, 'cannot be written'],
  ])('%j ends with %i and a sentence', async (args, exit, sentence) => {
    const { code, stdout, stderr } = await runCli(['profile', '--quick', ...args], '', home);
    expect(code).toBe(exit);
    expect(stdout).toBe('');
    expect(stderr).toContain(sentence);
  });

  test('an interrupt ends it, and nothing is kept', async () => {
    const child = startCli(['profile', '--disk-size', '0', '--progress', 'on', '--output', path('late.json')], {
      XDG_CACHE_HOME: path('unused'),
    });
    child.stderr?.once('data', () => child.kill('SIGINT'));
    const { code, stdout, stderr } = await resultOf(child);
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(stderr).toContain('stopping (again to stop at once)');
    expect(stderr).not.toContain('rows');
    expect(() => readFileSync(path('late.json'))).toThrow();
    expect(() => readdirSync(path('unused/spillway/profiles'))).toThrow();
  });
});
