import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  BATCH_STRIDE,
  COMPUTE_PARTS,
  HEAD_MODES,
  type NativeRuntime,
  type RuntimeOptions,
} from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { greedyRow } from './support/runPass.js';
import { makeTinyModel, type TinyModel } from './support/tinyModel.js';

// Pages on disk and hidden states in stores, through the addon's own face.

const addon = loadAddon();
const LAYERS = 2;
const TEXT = Int32Array.from({ length: 60 }, (_, i) => (i * 17 + 5) % 61);
let model: TinyModel;
let folder: string;

beforeAll(() => {
  model = makeTinyModel();
  folder = mkdtempSync(join(tmpdir(), 'spillway-spill-'));
});
afterAll(() => {
  model.remove();
  rmSync(folder, { recursive: true });
});

const spill = () => ({ folder, pages: 4, buffers: 1, bufferPages: 4, hiddenBytes: 8192 });

/** Scores TEXT in chunks; hidden states go to a store and back after each layer where there is one. */
async function score(
  options: RuntimeOptions,
  pages: readonly number[],
  tail: number,
  chunk: number,
): Promise<{ scores: number[]; runtime: NativeRuntime; errors: string[] }> {
  const runtime = addon.openRuntime(options);
  await runtime.load(() => undefined);
  const scores: number[] = [];
  const errors: string[] = [];
  const waiting = new Map<number, () => void>();
  runtime.onCompleted((completions) => {
    errors.push(...completions.errors.map(({ code, message }) => `${code}: ${message}`));
    for (const head of completions.heads) scores.push(...head.scores);
    for (let i = 0; i < completions.events.length; i += 4) waiting.get(completions.events[i] ?? 0)?.();
  });
  const row = runtime.createRow({ ...greedyRow, tokens: TEXT, capacityTokens: TEXT.length });
  const activations = runtime.createActivations(64);
  const spilled = pages.some((page) => page < 0);
  const store = options.spill ? runtime.createHiddenStore(64, 1) : -1;
  let last = 0;
  for (let first = 0; first < TEXT.length; first += chunk) {
    const tokens = Math.min(chunk, TEXT.length - first);
    const fields = Int32Array.of(row, first, tokens, HEAD_MODES.score, 0, pages.length, tail);
    expect(fields).toHaveLength(BATCH_STRIDE);
    const batch = runtime.createBatch(fields, Int32Array.from(pages));
    const compute = (part: number, layer: number): void => {
      last = runtime.submitCompute(part, layer, batch, activations, last === 0 ? [] : [last], -1, spilled ? 0 : -1);
    };
    compute(COMPUTE_PARTS.embed, 0);
    for (let layer = 0; layer < LAYERS; layer++) {
      if (spilled) last = runtime.submitLoadCache(layer, batch, 0, [last]);
      compute(COMPUTE_PARTS.project, layer);
      compute(COMPUTE_PARTS.attend, layer);
      const completes = Math.floor((first + tokens) / 16) > Math.floor(first / 16);
      if (spilled && completes) last = runtime.submitStoreCache(layer, batch, 0, [last]);
      compute(COMPUTE_PARTS.finish, layer);
      if (store === -1) continue;
      last = runtime.submitStoreActivation(store, activations, tokens, [last]);
      last = runtime.submitLoadActivation(store, activations, tokens, [last]);
    }
    compute(COMPUTE_PARTS.head, 0);
    runtime.freeBatch(batch);
  }
  await new Promise<void>((resolve) => waiting.set(last, resolve));
  return { scores, runtime, errors };
}

describe('pages on disk', () => {
  test('give the same bits as memory, and what was moved is counted', async () => {
    const expected = await score(model.options(), [0, 1, 2, 3], -1, 60);
    expect(expected.scores).toHaveLength(59);
    expect(expected.runtime.moved).toEqual({ read: 0, written: 0 });
    for (const [pages, tail, chunk] of [
      [[-1, -2, -3, -4], 0, 7],
      [[0, -2, -1, 3], 3, 60],
      [[-4, 5, -2, 1], 9, 1],
    ] as const) {
      const found = await score(model.options({ spill: spill() }), pages, tail, chunk);
      expect(found.errors).toEqual([]);
      expect(found.scores).toEqual(expected.scores);
      const { moved, bytes } = found.runtime;
      // The last page of 60 tokens stays incomplete.
      const complete = pages.slice(0, 3).filter((page) => page < 0).length;
      expect(moved.written % 4096).toBe(0);
      expect(moved.written).toBeGreaterThanOrEqual(complete * LAYERS * bytes.pageSlot);
      if (chunk < 16) expect(moved.read).toBeGreaterThan(complete * LAYERS * bytes.pageSlot);
      await found.runtime.close();
      expect(found.runtime.moved).toEqual(moved);
    }
    await expected.runtime.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('count as bytes', () => {
    const memory = addon.measureRuntime(model.options());
    const bytes = addon.measureRuntime(model.options({ spill: spill() }));
    expect(memory).toMatchObject({ staging: 0, spill: 0, pageSlot: 4096 });
    expect(bytes).toMatchObject({ staging: 4 * 4096, spill: LAYERS * 4 * 4096 + 8192, pageSlot: 4096 });
    expect(bytes.activations - memory.activations).toBe(2 * 64 * 16 * 4);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('cannot be opened where the folder cannot be made', () => {
    const below = join(model.file, 'below');
    let thrown: unknown;
    try {
      addon.openRuntime(model.options({ spill: { ...spill(), folder: below } }));
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code: 'file', file: below, field: 'folder', found: 'Not a directory' });
  });
});

describe('SPILLWAY_DISK_FAULTS', () => {
  const addonPath = process.env['SPILLWAY_ADDON'] ?? join(process.cwd(), 'native/build/Release/spillway.node');
  const run = (faults: string): string => {
    const options = join(dirname(model.file), 'spilling.json');
    writeFileSync(
      options,
      JSON.stringify(model.options({ spill: spill() }), (_, value: unknown) =>
        value instanceof Float32Array ? { floats: [...value] } : value,
      ),
    );
    const script = `
      const addon = require(${JSON.stringify(addonPath)});
      const options = JSON.parse(require('node:fs').readFileSync(${JSON.stringify(options)}, 'utf8'),
        (_, value) => (value !== null && typeof value === 'object' && 'floats' in value ? Float32Array.from(value.floats) : value));
      (async () => {
        try {
          const runtime = addon.openRuntime(options);
          await runtime.load(() => {});
          const store = runtime.createHiddenStore(64, 0), activations = runtime.createActivations(64);
          let last = 0;
          const done = new Promise((resolve) => runtime.onCompleted(({ errors, events }) => { if (errors.length > 0 || events.at(-4) === last) resolve(errors[0] ?? 'fine'); }));
          last = runtime.submitLoadActivation(store, activations, 64, [runtime.submitStoreActivation(store, activations, 64, [])]);
          const outcome = await done;
          await runtime.close();
          console.log(outcome.message ?? outcome);
        } catch (error) { console.log(error.message); }
      })();`;
    const result = spawnSync(process.execPath, ['-e', script], {
      encoding: 'utf8',
      timeout: 570_000,
      env: { ...process.env, SPILLWAY_DISK_FAULTS: faults },
    });
    return result.stdout.trim() || `${String(result.status)} ${result.stderr}`;
  };

  test.each([
    ['', 'fine'],
    ['write:1:short', 'fine'],
    ['read:1:EIO:.store', 'fine'],
    ['read:1:EIO:.spill', 'Input/output error'],
    ['read:1+:short', 'found 0 bytes'],
    ['write:1:ENOSPC', 'No space left on device'],
    ['allocate:1:ENOSPC', 'reservation: found No space left on device'],
    ['open:1:EACCES:.spill', 'Permission denied'],
    ['read:one:EIO', 'SPILLWAY_DISK_FAULTS: found "read:one:EIO"'],
  ])('%j', (faults, words) => {
    expect(run(faults)).toContain(words);
    expect(readdirSync(folder)).toEqual([]);
  });
});
