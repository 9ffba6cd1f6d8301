import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { loadAddon, loadFrom, prebuilt } from '../../src/bindings/loadAddon.js';
import { NativeError } from '../../src/errors/engineErrors.js';

const folder = mkdtempSync(join(tmpdir(), 'spillway-load-'));
afterAll(() => rmSync(folder, { recursive: true }));

function refusal(paths: readonly string[], version: string): NativeError {
  try {
    loadFrom(paths, version);
  } catch (error) {
    if (error instanceof NativeError) return error;
    throw error;
  }
  throw new Error('the addon was loaded');
}

describe('loadAddon', () => {
  test('loads the addon of this package, once', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(loadAddon().version).toBe(version);
    expect(loadAddon()).toBe(loadAddon());
  });

  test('tells what it tried, and the remedy', () => {
    const broken = join(folder, 'broken.node');
    writeFileSync(broken, 'not a shared object');
    const error = refusal([join(folder, 'absent.node'), broken], '1.2.3');
    expect(error.code).toBe('native');
    const script = /build it with `node "(.+)"`/.exec(error.message)?.[1];
    expect(script !== undefined && existsSync(script)).toBe(true);
    expect(error.message).toContain('absent.node: no such file');
    expect(error.message).toContain(`${broken}: `);
  });

  test('refuses an addon of another version', () => {
    const path = join(process.cwd(), 'native/build/Release/spillway.node');
    expect(refusal([path], '9.9.9').message).toMatch(/built from version \S+, expected 9\.9\.9/);
  });

  test('finds the package for its platform, on Linux of glibc and of musl and first the one with CUDA, and nothing where there is none', () => {
    const scope = join(folder, 'node_modules', '@spillway');
    const install = (name: string): string => {
      mkdirSync(join(scope, name), { recursive: true });
      writeFileSync(
        join(scope, name, 'package.json'),
        JSON.stringify({ name: `@spillway/${name}`, main: 'spillway.node' }),
      );
      writeFileSync(join(scope, name, 'spillway.node'), '');
      return realpathSync(join(scope, name, 'spillway.node'));
    };
    const require = createRequire(join(folder, 'index.js'));
    const found = (platform: NodeJS.Platform, arch: NodeJS.Architecture): string[] =>
      prebuilt(require, { ...process, platform, arch });
    const [glibc, musl, cuda, mac] = ['linux-x64', 'linux-x64-musl', 'linux-x64-cuda', 'darwin-arm64'].map(install);
    expect(found('linux', 'x64')).toEqual([cuda, glibc, musl]);
    expect(found('darwin', 'arm64')).toEqual([mac]);
    expect(found('linux', 'arm64')).toEqual([]);
  });

  test('describes the machine', () => {
    const machine = loadAddon().machine();
    expect(machine.instructionSets[0]).toBe('scalar');
    expect(machine.processors).toBeGreaterThanOrEqual(1);
    expect(machine.cores).toBeGreaterThanOrEqual(1);
    expect(machine.cores).toBeLessThanOrEqual(machine.processors);
    expect(machine.memoryBytes).toBeGreaterThanOrEqual(machine.availableBytes);
    expect(machine.availableBytes).toBeGreaterThan(0);
    // Most machines that run this have none; asking must not fail there, with CUDA in the addon or without.
    for (const gpu of machine.gpus) {
      expect(gpu.memoryBytes).toBeGreaterThan(0);
      expect(gpu.computeCapability).toMatch(/^\d+\.\d+$/);
    }
  });
});
