import { EMULATED_ADDON } from './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunStats, TraceEvent } from '../../src/index.js';
import type { HardwareProfile } from '../../src/api/plan.js';
import { runCli, TINY_MODEL, type CliResult } from '../cli/support.js';

let folder: string;
const path = (name: string): string => join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-gpu-cli-'));
  writeFileSync(
    path('in.jsonl'),
    Array.from({ length: 6 }, (_, i) =>
      JSON.stringify({ id: i, tokens: Array.from({ length: 3 + 4 * i }, (__, j) => (i * 31 + j * 17 + 3) % 250) }),
    ).join('\n'),
  );
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const run = (...args: string[]): Promise<CliResult> => runCli(args, '', { SPILLWAY_ADDON: EMULATED_ADDON });
const generate = (output: string, ...flags: string[]): Promise<CliResult> =>
  run(
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    path('in.jsonl'),
    '--output',
    path(output),
    '--disk',
    folder,
    '--max-new-tokens',
    '6',
    '--progress',
    'off',
    ...flags,
  );

describe('the command line with --gpu-memory', () => {
  test('generate computes there, by a policy file on three tiers, and says what it did', async () => {
    expect(await generate('plain.jsonl', '--gpu-memory', '16MiB')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('too little work to measure the GPU of this machine for') as unknown,
    });
    writeFileSync(
      path('policy.json'),
      JSON.stringify({
        schedule: 'zigzag',
        batchSize: 2,
        batches: 2,
        weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 },
        cache: { gpu: 1 },
        activations: { gpu: 1 },
      }),
    );
    const flags = [
      '--gpu-memory',
      '16MiB',
      '--device',
      'cuda',
      '--policy',
      path('policy.json'),
      '--stats',
      path('stats.json'),
      '--trace',
      path('trace.json'),
    ];
    expect(await generate('tiers.jsonl', ...flags)).toMatchObject({ code: 0 });
    expect(readFileSync(path('tiers.jsonl'), 'utf8')).toBe(readFileSync(path('plain.jsonl'), 'utf8'));
    const stats = JSON.parse(readFileSync(path('stats.json'), 'utf8')) as RunStats;
    expect(Object.keys(stats.memory)).toEqual(['gpu', 'cpu', 'disk']);
    expect(stats.unpinnedBytes).toBe(0);
    expect(Object.keys(stats.queues).sort()).toEqual(['disk-read', 'gpu-compute', 'host-to-device']);
    expect(Object.keys(stats.bytes.weights).sort()).toEqual(['cpu→gpu', 'disk→cpu']);
    const trace = JSON.parse(readFileSync(path('trace.json'), 'utf8')) as TraceEvent[] | { traceEvents: TraceEvent[] };
    const events = Array.isArray(trace) ? trace : trace.traceEvents;
    expect(events.some(({ ph, name }) => ph === 'C' && name === 'gpu bytes')).toBe(true);
    expect(
      events.some(
        ({ name, args }) => name.startsWith('load_weight ') && args['from'] === 'cpu' && args['to'] === 'gpu',
      ),
    ).toBe(true);
  });

  test('a job of the processor is not resumed on the GPU, nor one of the GPU with another share of the cache there', async () => {
    const shares = (gpu: number): string => {
      writeFileSync(
        path(`cache-${gpu}.json`),
        JSON.stringify({
          batchSize: 2,
          batches: 1,
          weights: { gpu: 1 },
          cache: { gpu, cpu: 1 - gpu },
          activations: { gpu: 1 },
        }),
      );
      return path(`cache-${gpu}.json`);
    };
    const onGpu = ['--gpu-memory', '16MiB'];
    expect(await generate('processor.jsonl')).toMatchObject({ code: 0 });
    expect(await generate('processor.jsonl', ...onGpu, '--resume')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /differs .* in gpu \(was null, is \{"name":"emulated GPU","computeCapability":"[\d.]+","products":"own","cacheShare":\d/,
      ) as unknown,
    });
    expect(await generate('shares.jsonl', ...onGpu, '--policy', shares(1))).toMatchObject({ code: 0 });
    expect(await generate('shares.jsonl', ...onGpu, '--policy', shares(0.5), '--resume')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('"cacheShare":0.5') as unknown,
    });
    expect(await generate('shares.jsonl', '--resume')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/differs .* in gpu \(was \{.*\}, is null\)/) as unknown,
    });
    expect(
      await generate('shares.jsonl', ...onGpu, '--policy', shares(1), '--resume', '--batch-size', '3'),
    ).toMatchObject({ code: 0 });
  });

  test('a cap that is too small is exit 3, with the smallest one that works', async () => {
    const { code, stderr } = await generate('small.jsonl', '--gpu-memory', '1000');
    expect(code).toBe(3);
    const needed = /--gpu-memory (\d+)/.exec(stderr)?.[1];
    expect(Number(needed)).toBeGreaterThan(1000);
  });

  test('more than the GPU has, and a GPU that is not to be used, are exit 1', async () => {
    expect(await generate('much.jsonl', '--gpu-memory', '1TiB')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('of emulated GPU') as unknown,
    });
    expect(await generate('not.jsonl', '--gpu-memory', '16MiB', '--device', 'cpu')).toMatchObject({ code: 1 });
    expect(await generate('cuda.jsonl', '--device', 'cuda')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('device: found "cuda" without --gpu-memory') as unknown,
    });
  });

  test('profile measures the GPU, and plan plans with it what it keeps', async () => {
    const cache = { XDG_CACHE_HOME: path('cache') };
    const flags = ['--gpu-memory', '64MiB'];
    const { code, stdout } = await runCli(
      [
        'profile',
        '--quick',
        '--disk-size',
        '0',
        '--threads',
        '1',
        ...flags,
        '--progress',
        'off',
        '--output',
        path('hardware.json'),
      ],
      '',
      { SPILLWAY_ADDON: EMULATED_ADDON, ...cache },
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/GPU +emulated GPU, 64 MiB for a run/);
    expect(stdout).toContain('a copy of next to nothing');
    expect(stdout).toMatch(/q4, GPU/);
    const hardware = JSON.parse(readFileSync(path('hardware.json'), 'utf8')) as HardwareProfile;
    expect(hardware).toMatchObject({
      machine: { gpuName: 'emulated GPU', gpuMemoryBytes: 2 ** 30, gpuDriver: '12.8' },
      memory: { gpuBytes: 64 * 2 ** 20 },
    });
    const plan = await runCli(
      [
        'plan',
        '--model',
        TINY_MODEL,
        '--hardware',
        path('hardware.json'),
        '--prompt-tokens',
        '16',
        '--max-new-tokens',
        '8',
        '--rows',
        '4',
        '--json',
      ],
      '',
      { SPILLWAY_ADDON: EMULATED_ADDON, ...cache },
    );
    expect(plan.code).toBe(0);
    expect(JSON.parse(plan.stdout)).toMatchObject({
      predicted: { queueSeconds: { 'gpu-compute': expect.any(Number) as unknown } },
    });
    expect(await run('profile', '--gpu-memory', '1TiB')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('of emulated GPU') as unknown,
    });
    expect(await run('profile', '--gpu-memory', '1MiB')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('expected at least 64 MiB') as unknown,
    });
  });

  test('bench measures it', async () => {
    const { code, stdout } = await run(
      'bench',
      '--model',
      TINY_MODEL,
      '--gpu-memory',
      '32MiB',
      '--batch-sizes',
      '2',
      '--prompt-tokens',
      '4',
      '--max-new-tokens',
      '3',
      '--seconds',
      '2',
      '--json',
    );
    expect(code).toBe(0);
    const { results } = JSON.parse(stdout) as { results: { memoryBytes: Record<string, number> }[] };
    expect(results[0]?.memoryBytes['gpu']).toBeGreaterThan(0);
  });
});
