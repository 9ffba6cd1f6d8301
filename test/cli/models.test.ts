import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../jobs/support/files.js';
import { StubHub } from '../support/StubHub.js';
import { runHere } from './runHere.js';
import { runCli, TINY_MODEL } from './support.js';

const path = temporaryFolder();
let hub: StubHub;
beforeAll(async () => {
  hub = await StubHub.start();
  hub.add('tiny-Q4_K_M.gguf', readFileSync(TINY_MODEL));
});
afterAll(() => hub[Symbol.asyncDispose]());

const environment = (): Record<string, string> => ({
  HF_ENDPOINT: hub.endpoint,
  HF_HOME: path('hf'),
  XDG_CACHE_HOME: path('cache'),
  HF_TOKEN: 'hf_secret',
  HF_HUB_CACHE: '',
  HF_HUB_OFFLINE: '',
});

describe('a model by its name', () => {
  test('is fetched, told, opened by inspect and generate, listed and removed', async () => {
    const pulled = await runCli(['pull', 'hf:someone/tiny'], '', environment());
    expect(pulled).toMatchObject({
      code: 0,
      stdout: `${path('hf')}/hub/models--someone--tiny/snapshots/${hub.commit}/tiny-Q4_K_M.gguf\n`,
    });
    const offline = { ...environment(), HF_HUB_OFFLINE: '1' };
    expect((await runCli(['inspect', 'hf:someone/tiny'], '', offline)).stdout).toMatch(/^architecture +llama$/m);
    const generated = await runCli(
      [
        'generate',
        '--model',
        'hf:someone/tiny:Q4_K_M',
        '--input',
        '-',
        '--output',
        '-',
        '--max-new-tokens',
        '2',
        '--policy',
        'default',
      ],
      '{"tokens":[1,2]}\n',
      offline,
    );
    expect(generated).toMatchObject({ code: 0 });
    const listed = await runCli(['models'], '', offline);
    expect(listed.stdout).toMatch(/^name +size +where\nhf:someone\/tiny +[\d.]+ KiB +\S+models--someone--tiny\n$/);
    expect(JSON.parse((await runCli(['models', '--json'], '', offline)).stdout)).toEqual({
      models: [{ name: 'hf:someone/tiny', bytes: expect.any(Number), path: path('hf/hub/models--someone--tiny') }],
      repacked: [],
    });
    expect(await runHere(['models', '--json', '--remove', 'x'])).toMatchObject({ code: 1 });
    expect(await runCli(['models', '--remove', 'hf:someone/tyni'], '', offline)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('did you mean hf:someone/tiny?'),
    });
    expect(await runCli(['models', '--remove', 'hf:someone/tiny'], '', offline)).toMatchObject({ code: 0 });
    expect(existsSync(path('hf/hub/models--someone--tiny'))).toBe(false);
    expect((await runCli(['models'], '', offline)).stderr).toContain('no model has been fetched');
  });

  test('what runs have repacked is listed with its model, size and age, and removed by its path', async () => {
    const cache = { ...environment(), XDG_CACHE_HOME: path('repacked') };
    const run = ['generate', '--model', TINY_MODEL, '--input', '-', '--output', '-', '--max-new-tokens', '1'];
    const weights = JSON.stringify({ weights: { gpu: 0, cpu: 0, disk: 1 } });
    writeFileSync(path('policy.json'), weights);
    for (const more of [[], ['--disk', path('disk')]])
      expect(
        await runCli([...run, '--policy', path('policy.json'), ...more], '{"tokens":[1,2]}\n', cache),
      ).toMatchObject({ code: 0 });
    const listed = await runCli(['models'], '', cache);
    expect(listed.stdout).toMatch(/^repacked, to be read from disk +size +age +where\n/);
    const stores = listed.stdout.split('\n').flatMap((line) => {
      const [, file, place] = /^(\S+) +[\d.]+ [KM]iB +today +(\S+)$/.exec(line) ?? [];
      return place === undefined ? [] : [{ file, place }];
    });
    expect(stores.map(({ file, place }) => [file, existsSync(place)])).toEqual([
      ['llama-Q8_0.gguf', true],
      ['llama-Q8_0.gguf', true],
    ]);
    expect(stores.filter(({ place }) => place.startsWith(`${path('disk')}/`))).toHaveLength(1);
    for (const { place } of stores) {
      expect(await runCli(['models', '--remove', place], '', cache)).toMatchObject({ code: 0 });
      expect(existsSync(place)).toBe(false);
    }
    expect((await runCli(['models'], '', cache)).stdout).toBe('');
  });

  test('what is gated, misspelt or no name is told with its remedy', async () => {
    hub.refusals.set('/api', { kind: 'status', status: 403, code: 'GatedRepo' });
    const gated = await runCli(['pull', 'hf:someone/tiny'], '', environment());
    expect(gated).toMatchObject({ code: 2, stdout: '' });
    expect(gated.stderr).toMatch(/^error: hf:someone\/tiny: .*is gated \(status 403\): accept its terms at/);
    hub.refusals.clear();
    expect((await runHere(['pull', 'smollm2-135m'])).stderr).toContain('(did you mean smollm2-135m-instruct?)');
    expect((await runHere(['inspect', 'smolm2-135m-instruct'])).stderr).toContain(
      '(did you mean smollm2-135m-instruct?)',
    );
    expect(await runHere(['pull', 'hf:x'])).toMatchObject({ code: 1 });
    expect(await runHere(['inspect', TINY_MODEL, '--model', TINY_MODEL])).toMatchObject({ code: 1 });
  });

  test('pull --list names a dozen worth having', async () => {
    const { stdout } = await runHere(['pull', '--list']);
    const lines = stdout.trim().split('\n');
    expect(lines[1]).toMatch(/^smollm2-135m-instruct +93.8 MiB +Apache-2.0/);
    expect(lines.length).toBeGreaterThan(12);
  });

  test('a cache folder that cannot be written names the variable that moves it', async () => {
    writeFileSync(path('file'), '');
    const { code, stderr } = await runCli(['pull', 'smollm2-135m-instruct'], '', {
      ...environment(),
      XDG_CACHE_HOME: path('file'),
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /folder of models: found that a part of its path is no folder \(ENOTDIR\), expected one that can be written \(XDG_CACHE_HOME names another place\)/,
    );
  });
});

describe('doctor', () => {
  test('one page; nothing is wrong here', async () => {
    const { code, stdout } = await runCli(['doctor'], '', environment());
    for (const word of [
      'Spillway ',
      'Node ',
      'system ',
      'addon ',
      'processor ',
      'instruction sets ',
      'memory ',
      'GPU ',
      'folder ',
      'models ',
      process.versions.node,
    ])
      expect(stdout).toContain(word);
    expect(stdout).toContain('HF_TOKEN: is set');
    expect(stdout).not.toContain('hf_secret');
    expect(stdout.split('\n').length).toBeLessThan(40);
    expect(stdout.includes('Nothing is wrong here.')).toBe(code === 0);
  });

  test('as JSON; without an addon, and with folders that cannot be: what is wrong, with remedies, and exit 2', async () => {
    mkdirSync(path('bin'), { recursive: true });
    const addon = join(path('bin'), 'none.node');
    const { code, stdout } = await runCli(['doctor', '--json'], '', {
      ...environment(),
      SPILLWAY_ADDON: addon,
      XDG_CACHE_HOME: path('file'),
    });
    expect(code).toBe(2);
    const {
      problems,
      machine,
      environment: variables,
    } = JSON.parse(stdout) as { problems: string[]; machine?: unknown; environment: Record<string, string> };
    expect(machine).toBeUndefined();
    expect(variables).toMatchObject({ SPILLWAY_ADDON: addon, HF_TOKEN: 'is set' });
    expect(problems[0]).toMatch(/^addon: the native addon cannot be loaded; build it with/);
    expect(
      problems.some((problem) => problem.includes('cannot be written') && problem.includes('XDG_CACHE_HOME')),
    ).toBe(true);
  });
});
