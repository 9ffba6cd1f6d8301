// scripts/verify-gpu.sh itself, on the emulated device: steps, what fails, the report.
import { EMULATED_ADDON } from './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
if (!existsSync(join(root, 'dist', 'index.js'))) throw new Error('dist/index.js: no such file; npm run build makes it');

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-verify-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

function verify(
  environment: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      'bash',
      [join(root, 'scripts', 'verify-gpu.sh'), ...args],
      { env: { ...process.env, ...environment } },
      (_, stdout, stderr) => {
        resolve({ code: child.exitCode ?? -1, output: stdout + stderr });
      },
    );
  });
}

interface Report {
  readonly asked: readonly { readonly what: string; readonly measured: string; readonly holds?: boolean }[];
}
const readReport = (results: string): Report => {
  const name = readdirSync(results).find((each) => /^gpu-.*\.json$/.test(each)) ?? '';
  return JSON.parse(readFileSync(join(results, name), 'utf8')) as Report;
};

describe('scripts/verify-gpu.sh', () => {
  test('runs the steps that are asked for, and reports what they found and what did not run', async () => {
    const results = join(folder, 'good');
    const { code, output } = await verify(
      { SPILLWAY_VERIFY_EMULATED: EMULATED_ADDON, SPILLWAY_FLEXGEN_PYTHON: join(folder, 'no-python') },
      '--only',
      'end-to-end-streaming,peers-opt-6.7b,kernels',
      '--results',
      results,
    );
    expect({ code, output }).toMatchObject({ code: 0 });
    const { asked } = readReport(results);
    const of = (what: string): object | undefined => asked.find((each) => each.what.startsWith(what));
    expect(of('copies overlapped')).toMatchObject({
      measured: expect.stringContaining('weights in memory and on disk: ') as unknown,
    });
    expect(of('kernel tests')).toMatchObject({ measured: 'not measured yet (the device is emulated)' });
    expect(of('greedy ids')).toMatchObject({ measured: 'not measured yet (not run)' });
    const peer = JSON.parse(readFileSync(join(results, 'peers-opt-6.7b.json'), 'utf8')) as object;
    expect(peer).toHaveProperty('notMeasured');
    const packed = execFileSync('tar', ['-tzf', `${results}.tar.gz`], { encoding: 'utf8' }).split('\n');
    expect(packed).toEqual(expect.arrayContaining(['./end-to-end-streaming.json', './peers-opt-6.7b.step.json']));
    // Models of the run are gone.
    expect(readdirSync(results).filter((name) => name.startsWith('spillway-verify'))).toEqual([]);
  });

  test('a step that fails is in the report, and is the exit code', async () => {
    const results = join(folder, 'bad');
    const { code, output } = await verify(
      { SPILLWAY_VERIFY_EMULATED: join(folder, 'no-addon.node') },
      '--only',
      'end-to-end-streaming,speed-opt-30b',
      '--results',
      results,
    );
    expect({ code, output }).toMatchObject({
      code: 1,
      output: expect.stringContaining('--- speed-opt-30b: exit 1') as unknown,
    });
    expect(
      readReport(results).asked.find(({ what }) => what.startsWith('a tiny stand-in') || what.startsWith('OPT-30B'))
        ?.measured,
    ).toContain('not measured yet (the native addon cannot be loaded');
  });

  test.each([
    [['--only', 'kernel'], 'expected some of'],
    [['--ony', 'kernels'], 'expected --only'],
    [['--results'], 'found nothing behind it'],
  ])('%j is refused', async (args, words) => {
    expect(await verify({ SPILLWAY_VERIFY_EMULATED: EMULATED_ADDON }, ...args)).toMatchObject({
      code: 1,
      output: expect.stringContaining(words) as unknown,
    });
  });

  test('without a GPU it writes nothing, and exits with 2', async () => {
    const results = join(folder, 'none');
    // Also on machines that have one.
    writeFileSync(join(folder, 'nvidia-smi'), '#!/bin/sh\necho there is no driver\nexit 9\n', { mode: 0o755 });
    expect(
      await verify(
        { SPILLWAY_VERIFY_EMULATED: '', PATH: `${folder}:${process.env['PATH'] ?? ''}` },
        '--results',
        results,
      ),
    ).toMatchObject({
      code: 2,
      output: expect.stringContaining('no NVIDIA GPU to verify on: there is no driver') as unknown,
    });
    expect(existsSync(results)).toBe(false);
  });
});
