import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { loadAddon, loadFrom } from '../../src/bindings/loadAddon.js';
import { NativeError } from '../../src/errors/NativeError.js';

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

  test('describes the machine', () => {
    const machine = loadAddon().machine();
    expect(machine.instructionSets[0]).toBe('scalar');
    expect(machine.processors).toBeGreaterThanOrEqual(1);
    expect(machine.memoryBytes).toBeGreaterThanOrEqual(machine.availableBytes);
    expect(machine.availableBytes).toBeGreaterThan(0);
    // Most machines that run this have none; asking must not fail there, with CUDA in the addon or without.
    for (const gpu of machine.gpus) {
      expect(gpu.memoryBytes).toBeGreaterThan(0);
      expect(gpu.computeCapability).toMatch(/^\d+\.\d+$/);
    }
  });
});
