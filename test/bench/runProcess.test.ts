import { describe, expect, test } from '@jest/globals';

interface Outcome {
  readonly code: number | null;
  readonly signal: string | null;
  readonly timedOut: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallSeconds: number;
  readonly cpuSeconds: number | undefined;
  readonly peakResidentBytes: number;
}
interface Script {
  howItEnded(output: Outcome, limit?: number): string;
  lastJson(stdout: string): unknown;
  runProcess(program: string, args: readonly string[], options?: object): Promise<Outcome>;
}
/** The benchmarks are scripts without types. */
const path: string = '../../bench/lib/runProcess.mjs';
const { howItEnded, lastJson, runProcess } = (await import(path)) as Script;

const linux = process.platform === 'linux' ? test : test.skip;

describe('runProcess', () => {
  linux('counts the processor time and the memory of the program, not of this process', async () => {
    const code =
      'const kept = Buffer.alloc(96 * 2 ** 20, 1); const end = process.cpuUsage().user + 4e5; while (process.cpuUsage().user < end); console.log(kept.length)';
    const outcome = await runProcess(process.execPath, ['-e', `${code}; setTimeout(() => {}, 300)`]);
    expect(outcome).toMatchObject({ code: 0, signal: null, timedOut: false, stdout: `${96 * 2 ** 20}\n` });
    expect(outcome.cpuSeconds).toBeGreaterThanOrEqual(0.4);
    expect(outcome.peakResidentBytes).toBeGreaterThan(96 * 2 ** 20);
  });

  test('a program that is not done in time is ended, and said so', async () => {
    const outcome = await runProcess(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
      timeLimitSeconds: 0.5,
    });
    expect(outcome).toMatchObject({ code: null, signal: 'SIGTERM', timedOut: true });
    expect(howItEnded(outcome, 0.5)).toBe('not done after 0.5 s');
  });

  test('a program that fails says why; one that is not there is an error', async () => {
    const outcome = await runProcess(process.execPath, ['-e', 'console.error("no such model"); process.exit(3)']);
    expect(howItEnded(outcome)).toBe('ended with 3: no such model');
    const thrown = await runProcess(process.execPath, ['-e', 'throw Object.assign(new TypeError("no"), { code: 1 })']);
    expect(howItEnded(thrown)).toBe('ended with 1: TypeError: no');
    await expect(runProcess('/no/such/program', [])).rejects.toThrow('ENOENT');
  });

  test('figures are the last line that is JSON', () => {
    expect(lastJson('{"a":1}\n{"a":2}\n{broken\nwords\n')).toEqual({ a: 2 });
    expect(lastJson('words')).toBeUndefined();
  });
});
