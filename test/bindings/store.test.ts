import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { HEAD_MODES, type RuntimeOptions } from '../../src/bindings/Addon.js';
import type { RepackOptions, StoreFacts } from '../../src/bindings/Store.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import type { ModelSource } from '../../src/model/ModelSource.js';
import { fixtureModels, type FixtureModel } from '../support/model/fixtureModels.js';
import { StreamedPasses } from '../support/StreamedPasses.js';
import { inTurn, tries } from '../support/tries.js';

const addon = loadAddon();
const FINGERPRINT = 'sizes and times';
const NEW_TOKENS = 5;
const ALL = 2 ** 40;
const PROMPT = [5, 9, 2, 14, 3, 8, 21, 17, 4];

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-store-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function repackOptions({ decoder, bindings, files }: ModelSource, store: string): RepackOptions {
  return { decoder, bindings, files, store, fingerprint: FINGERPRINT, threads: 2 };
}

function runtimeOptions(
  { decoder, bindings, files }: ModelSource,
  weights?: RuntimeOptions['weights'],
): RuntimeOptions {
  const options: RuntimeOptions = {
    decoder,
    bindings,
    files,
    precision: 'default',
    threads: 2,
    cache: { type: 'f16', pageTokens: 32, pages: 4, ...(decoder.recurrent && { states: 1 }) },
    limits: { tokensPerSquare: 64, rowsPerSquare: 1 },
  };
  return weights === undefined ? options : { ...options, weights };
}

function factsOf(store: string): StoreFacts {
  const facts = addon.inspectStore(store, FINGERPRINT);
  if (facts === undefined) throw new Error(`no store at ${store}`);
  return facts;
}

async function withPasses<T>(options: RuntimeOptions, use: (passes: StreamedPasses) => Promise<T>): Promise<T> {
  const runtime = addon.openRuntime(options);
  try {
    await runtime.load(() => undefined);
    return await use(new StreamedPasses(runtime, options.decoder.layers, 64, options.weights?.buffers ?? 1));
  } finally {
    await runtime.close();
  }
}

/** Makes the model's store anew, and removes it afterwards. */
async function withStore<T>(model: FixtureModel, use: (source: ModelSource, store: string) => Promise<T>): Promise<T> {
  return model.use(async (source) => {
    const store = join(folder, `${model.name}.spillway`);
    await addon.repack(repackOptions(source, store), () => undefined);
    try {
      return await use(source, store);
    } finally {
      rmSync(store, { force: true });
    }
  });
}

function model(name: string): FixtureModel {
  const found = fixtureModels.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Error(`no fixture ${name}`);
  return found;
}

function flipByte(path: string, offset: number): void {
  const file = openSync(path, 'r+');
  try {
    const byte = new Uint8Array(1);
    readSync(file, byte, 0, 1, offset);
    byte[0] = (byte[0] ?? 0) ^ 0x10;
    writeSync(file, byte, 0, 1, offset);
  } finally {
    closeSync(file);
  }
}

const padded = (bytes: number): number => Math.ceil(bytes / 4096) * 4096;

const remembers = ({ decoder }: ModelSource): boolean => decoder.recurrent !== undefined;

describe('the same bits as in memory', () => {
  test.each(fixtureModels.map(({ name }, nth) => [name, nth] as const))('%s', async (name, nth) => {
    await withStore(model(name), async (source, store) => {
      const expected = await withPasses(runtimeOptions(source), (passes) =>
        passes.everything(PROMPT, NEW_TOKENS, remembers(source)),
      );
      expect(expected.tokens).toHaveLength(NEW_TOKENS);
      expect(expected.scores.every(Number.isFinite)).toBe(true);
      const { layerBytes } = factsOf(store);
      const most = Math.max(...layerBytes);
      const shares: readonly (readonly [residentLayerBytes: number, buffers: number])[] = [
        [0, 1],
        [0, 2],
        [Math.floor(most / 2), 3],
        [Math.floor(most * 0.37) + 1, 2],
        [most - 1, 1],
        [most, 1],
        [ALL, 3],
      ];
      // By day one of them, in turn: other cuts are drawn below.
      for (const [residentLayerBytes, buffers] of inTurn(shares, nth)) {
        const found = await withPasses(
          runtimeOptions(source, { store, fingerprint: FINGERPRINT, residentLayerBytes, buffers }),
          (passes) => passes.everything(PROMPT, NEW_TOKENS, remembers(source)),
        );
        expect({ residentLayerBytes, buffers, ...found }).toEqual({ residentLayerBytes, buffers, ...expected });
      }
    });
  });

  test('at any cut and any number of buffers, in float32 too', async () => {
    await withStore(model('llama-Q4_K.gguf'), async (source, store) => {
      const expected = new Map<string, unknown>();
      for (const precision of ['default', 'float32'] as const) {
        expected.set(
          precision,
          await withPasses({ ...runtimeOptions(source), precision }, (passes) => passes.everything(PROMPT, 2)),
        );
      }
      const most = Math.max(...factsOf(store).layerBytes);
      await fc.assert(
        fc.asyncProperty(
          fc.nat(most),
          fc.integer({ min: 1, max: 5 }),
          fc.constantFrom('default' as const, 'float32' as const),
          async (residentLayerBytes, buffers, precision) => {
            const options = {
              ...runtimeOptions(source, { store, fingerprint: FINGERPRINT, residentLayerBytes, buffers }),
              precision,
            };
            expect(await withPasses(options, (passes) => passes.everything(PROMPT, 2))).toEqual(
              expected.get(precision),
            );
          },
        ),
        { numRuns: tries(6, 30) },
      );
    });
  });
});

describe('bytes', () => {
  test('are what is resident, and whole buffers for the rest', async () => {
    await withStore(model('llama-Q4_0.gguf'), async (source, store) => {
      const facts = factsOf(store);
      expect(facts.layerBytes).toHaveLength(source.decoder.layers);
      const measure = (residentLayerBytes: number, buffers: number) =>
        addon.measureRuntime(
          runtimeOptions(source, { store: '/nonexistent', fingerprint: '', residentLayerBytes, buffers }),
        );
      const memory = addon.measureRuntime(runtimeOptions(source));
      expect(measure(ALL, 3)).toEqual(memory);
      expect(memory.weights).toBe(
        padded(facts.globalBytes) + facts.layerBytes.reduce((sum, bytes) => sum + padded(bytes), 0),
      );
      expect(memory.weightBuffers).toBe(0);
      expect(memory.streamed).toEqual(facts.layerBytes.map(() => 0));
      const none = measure(0, 2);
      expect(none.weights).toBe(
        padded(facts.globalBytes) + facts.vectorBytes.reduce((sum, bytes) => sum + padded(bytes), 0),
      );
      expect(none.weightBuffers).toBe(2 * Math.max(...none.streamed));
      none.streamed.forEach((bytes, layer) =>
        expect(bytes).toBe(
          padded(facts.layerBytes[layer] ?? 0) - Math.floor((facts.vectorBytes[layer] ?? 0) / 4096) * 4096,
        ),
      );
      for (const residentLayerBytes of [1, 3000, 20_000, 100_000]) {
        const some = measure(residentLayerBytes, 1);
        expect(some.weights).toBeGreaterThanOrEqual(none.weights);
        expect(some.weights).toBeLessThanOrEqual(
          padded(facts.globalBytes) +
            source.decoder.layers * padded(Math.max(residentLayerBytes, ...facts.vectorBytes)),
        );
      }
    });
  });
});

describe('a store that is not what it should be', () => {
  const name = 'mixtral-Q8_0.gguf';
  const weights = (store: string, residentLayerBytes = 0): RuntimeOptions['weights'] => ({
    store,
    fingerprint: FINGERPRINT,
    residentLayerBytes,
    buffers: 2,
  });

  test('is not there, or another model’s: undefined, and refused at opening', async () => {
    await withStore(model(name), async (source, store) => {
      expect(addon.inspectStore(join(folder, 'nothing'), FINGERPRINT)).toBeUndefined();
      expect(addon.inspectStore(store, 'another')).toBeUndefined();
      expect(() => addon.openRuntime(runtimeOptions(source, weights(join(folder, 'nothing'))))).toThrow(
        expect.objectContaining({ code: 'file' }),
      );
      expect(() =>
        addon.openRuntime(
          runtimeOptions(source, {
            ...weights(store),
            store,
            fingerprint: 'another',
            residentLayerBytes: 0,
            buffers: 1,
          }),
        ),
      ).toThrow(expect.objectContaining({ code: 'file', file: store, field: 'fingerprint', found: FINGERPRINT }));
      const other = await model('llama-Q8_0.gguf').use((llama) => llama);
      expect(() => addon.openRuntime(runtimeOptions(other, weights(store)))).toThrow(
        expect.objectContaining({ code: 'file', field: 'table' }),
      );
    });
  });

  test('is damaged in its header, cut short, or no store at all', async () => {
    await withStore(model(name), async (source, store) => {
      flipByte(store, 100);
      expect(() => addon.inspectStore(store, FINGERPRINT)).toThrow(
        expect.objectContaining({ code: 'file', file: store, field: 'header' }),
      );
      expect(() => addon.openRuntime(runtimeOptions(source, weights(store)))).toThrow(
        expect.objectContaining({ code: 'file', field: 'header' }),
      );
      flipByte(store, 100);
      const { fileBytes } = factsOf(store);
      for (const length of [fileBytes - 1, Math.floor(fileBytes / 2), 5000, 60, 0]) {
        truncateSync(store, length);
        expect(() => addon.inspectStore(store, FINGERPRINT)).toThrow(
          expect.objectContaining({ code: 'file', file: store }),
        );
        expect(() => addon.openRuntime(runtimeOptions(source, weights(store)))).toThrow(
          expect.objectContaining({ code: 'file', file: store }),
        );
      }
      writeFileSync(store, Buffer.alloc(10_000, 'x'));
      expect(() => addon.inspectStore(store, FINGERPRINT)).toThrow(
        expect.objectContaining({ code: 'file', field: 'magic' }),
      );
    });
  });

  test('is damaged in what is resident: loading fails and names the block', async () => {
    await withStore(model(name), async (source, store) => {
      const { fileBytes, layerBytes, globalBytes } = factsOf(store);
      const layers = layerBytes.reduce((sum, bytes) => sum + padded(bytes), 0);
      for (const [offset, block] of [
        [fileBytes - layers - padded(globalBytes) + 7, 'globals at offset'],
        [fileBytes - layers + 11, 'layer 0 at offset'],
      ] as const) {
        flipByte(store, offset);
        const runtime = addon.openRuntime(runtimeOptions(source, weights(store, ALL)));
        await expect(runtime.load(() => undefined)).rejects.toMatchObject({
          code: 'file',
          file: store,
          field: expect.stringContaining(block),
        });
        await runtime.close();
        flipByte(store, offset);
      }
    });
  });

  test('is damaged in what streams: the load fails and names the layer, and so does what waits for it', async () => {
    // Tiny layers are one chunk, which loading verifies as a whole: the damage must come after it.
    await withStore(model(name), async (source, store) => {
      const { fileBytes } = factsOf(store);
      await withPasses(runtimeOptions(source, weights(store)), async (passes) => {
        flipByte(store, fileBytes - padded(factsOf(store).layerBytes.at(-1) ?? 0) + 40_000);
        const row = passes.runtime.createRow({
          tokens: Int32Array.from(PROMPT),
          capacityTokens: 20,
          temperature: 0,
          topP: 1,
          topK: 0,
          minP: 0,
          repetitionPenalty: 1,
          seed: 0,
          logprobs: -1,
        });
        const layer = source.decoder.layers - 1;
        const batch = passes.batch(row, 0, PROMPT.length, HEAD_MODES.none);
        const loaded = passes.runtime.submitLoadWeight(layer, 1, []);
        const computed = passes.compute('project', layer, batch, [loaded], 1);
        const outcomes = await Promise.all([passes.outcome(loaded), passes.outcome(computed)]);
        expect(outcomes[0]).toMatchObject({
          code: 'file',
          message: expect.stringContaining(`${store}: layer ${layer} at offset`),
          file: store,
        });
        expect(outcomes[1]).toMatchObject({ code: 'dependency' });
        // The runtime lives on.
        const again = passes.runtime.submitLoadWeight(0, 1, []);
        expect(await passes.outcome(again)).toBeUndefined();
      });
    });
  });
});

describe('a conversion', () => {
  test('reports its bytes, and leaves one file', async () => {
    const own = join(folder, 'own');
    mkdirSync(own);
    await model('gemma3-mixed.gguf').use(async (source) => {
      const store = join(own, 'gemma3.spillway');
      const reports: (readonly [number, number])[] = [];
      await addon.repack(repackOptions(source, store), (bytes, totalBytes) => reports.push([bytes, totalBytes]));
      const facts = factsOf(store);
      const total = facts.globalBytes + facts.layerBytes.reduce((sum, bytes) => sum + bytes, 0);
      expect(reports.at(-1)).toEqual([total, total]);
      expect(readdirSync(own)).toEqual(['gemma3.spillway']);
    });
  });

  test('that was cancelled, killed or torn is taken up, to the same bytes', async () => {
    await withStore(model('llama-F32.gguf'), async (source, store) => {
      const whole = readFileSync(store);
      const again = join(folder, 'again.spillway');
      const partial = `${again}.partial`;
      const options = repackOptions(source, again);
      // On a busy machine the conversion may be through before its first report is heard: either it was cancelled and
      // there is no store, or there is a whole one. native/tests/model/repack_test cancels in the middle for certain.
      const outcome = await addon.repack(options, () => false).catch((error: unknown) => error);
      if (outcome !== undefined) expect(outcome).toMatchObject({ code: 'cancelled' });
      expect(existsSync(again)).toBe(outcome === undefined);
      await addon.repack(options, () => undefined);
      expect(readFileSync(again).equals(whole)).toBe(true);
      await fc.assert(
        fc.asyncProperty(fc.nat(whole.length), fc.constantFrom('zeros', 'cut', 'random'), async (at, kind) => {
          rmSync(again, { force: true });
          const rest =
            kind === 'cut' ? Buffer.alloc(0) : Buffer.alloc(whole.length - at, kind === 'zeros' ? 0 : 'noise');
          writeFileSync(partial, Buffer.concat([whole.subarray(0, at), rest]));
          await addon.repack(options, () => undefined);
          expect(readFileSync(again).equals(whole)).toBe(true);
          expect(existsSync(partial)).toBe(false);
        }),
        { numRuns: tries(8, 40) },
      );
    });
  });

  test('does not write through a link that stands where it begins', async () => {
    await withStore(model('llama-F32.gguf'), async (source, store) => {
      const [again, precious] = [join(folder, 'linked.spillway'), join(folder, 'precious')];
      // As large as the store: anything else would not be gone on with.
      const content = Buffer.alloc(readFileSync(store).length, 'mine');
      writeFileSync(precious, content);
      symlinkSync(precious, `${again}.partial`);
      await expect(addon.repack(repackOptions(source, again), () => undefined)).rejects.toMatchObject({ code: 'file' });
      expect(readFileSync(precious).equals(content)).toBe(true);
      rmSync(`${again}.partial`);
    });
  });

  test('of a truncated model, or into a missing folder, leaves nothing behind', async () => {
    await model('llama-Q5_1.gguf').use(async (source) => {
      const own = mkdtempSync(join(folder, 'truncated-'));
      const file = join(own, 'model.gguf');
      const bytes = readFileSync(source.files[0] ?? '');
      writeFileSync(file, bytes.subarray(0, bytes.length - 100));
      const store = join(own, 'model.spillway');
      await expect(
        addon.repack({ ...repackOptions(source, store), files: [file] }, () => undefined),
      ).rejects.toMatchObject({ code: 'file', file });
      expect(readdirSync(own)).toEqual(['model.gguf']);
      await expect(
        addon.repack(repackOptions(source, join(own, 'missing', 'model.spillway')), () => undefined),
      ).rejects.toMatchObject({ code: 'file' });
    });
  });

  test('at the same time as another of the same store: one of them makes it', async () => {
    await model('llama-F32.gguf').use(async (source) => {
      const store = join(folder, 'twice.spillway');
      const both = await Promise.allSettled([
        addon.repack(repackOptions(source, store), () => undefined),
        addon.repack(repackOptions(source, store), () => undefined),
      ]);
      expect(both.some(({ status }) => status === 'fulfilled')).toBe(true);
      for (const outcome of both)
        if (outcome.status === 'rejected')
          expect(outcome.reason).toMatchObject({ code: 'busy', found: 'another process that is writing it' });
      expect(factsOf(store).layerBytes).toHaveLength(source.decoder.layers);
    });
  });

  const small = mountSmallDisk();
  afterAll(() => small?.unmount());
  (small === undefined ? test.skip : test)(
    'onto a full disk is an error that says so, and leaves nothing behind',
    async () => {
      await model('llama-F32.gguf').use(async (source) => {
        const path = small?.path ?? '';
        await expect(
          addon.repack(repackOptions(source, join(path, 'model.spillway')), () => undefined),
        ).rejects.toMatchObject({
          code: 'file',
          message: expect.stringContaining('No space left on device'),
        });
        expect(readdirSync(path)).toEqual([]);
      });
    },
  );

  test('refuses nonsense', async () => {
    await model('llama-F32.gguf').use(async (source) => {
      const options = repackOptions(source, join(folder, 'nonsense'));
      await expect(addon.repack({ ...options, threads: 0 }, () => undefined)).rejects.toMatchObject({
        code: 'invalid-argument',
      });
      await expect(
        addon.repack({ ...options, bindings: options.bindings.slice(1) }, () => undefined),
      ).rejects.toMatchObject({ code: 'file' });
      expect(() => addon.repack({ ...options, store: 'a\0b' }, () => undefined)).toThrow(
        expect.objectContaining({ code: 'invalid-argument' }),
      );
      expect(() => addon.repack(options, 1 as never)).toThrow(expect.objectContaining({ code: 'invalid-argument' }));
    });
  });
});

describe('tasks', () => {
  test('with a buffer that does not hold their layer fail; arguments out of range are refused', async () => {
    await withStore(model('llama-Q4_0.gguf'), async (source, store) => {
      await withPasses(
        runtimeOptions(source, { store, fingerprint: FINGERPRINT, residentLayerBytes: 0, buffers: 2 }),
        async (passes) => {
          const { runtime } = passes;
          const row = runtime.createRow({
            tokens: Int32Array.from(PROMPT),
            capacityTokens: 20,
            temperature: 0,
            topP: 1,
            topK: 0,
            minP: 0,
            repetitionPenalty: 1,
            seed: 0,
            logprobs: -1,
          });
          const batch = passes.batch(row, 0, PROMPT.length, HEAD_MODES.none);
          const loaded = runtime.submitLoadWeight(1, 0, []);
          const wrong = [
            passes.compute('project', 0, batch, [loaded], 0),
            passes.compute('finish', 1, batch, [loaded], 1),
            passes.compute('project', 1, batch, [loaded], 0),
          ];
          expect(await Promise.all(wrong.map((event) => passes.outcome(event)))).toEqual([
            expect.objectContaining({
              code: 'invalid-argument',
              message: 'weight buffer 0: found layer 1, expected layer 0',
            }),
            expect.objectContaining({
              code: 'invalid-argument',
              message: 'weight buffer 1: found nothing, expected layer 1',
            }),
            undefined,
          ]);
          const refused = expect.objectContaining({ code: 'invalid-argument' });
          for (const buffer of [-1, -2, 2, 0.5, undefined])
            expect(() => passes.compute('project', 0, batch, [], buffer)).toThrow(refused);
          for (const [layer, buffer] of [
            [0, 2],
            [0, -1],
            [99, 0],
            [0.5, 0],
          ] as const)
            expect(() => runtime.submitLoadWeight(layer, buffer, [])).toThrow(refused);
          expect(() => runtime.submitLoadWeight(0, 0, [10_000])).toThrow(refused);
        },
      );
      for (const buffers of [0, 5000, 1.5]) {
        expect(() =>
          addon.openRuntime(
            runtimeOptions(source, { store, fingerprint: FINGERPRINT, residentLayerBytes: 0, buffers }),
          ),
        ).toThrow(expect.objectContaining({ code: 'invalid-argument' }));
      }
      await withPasses(runtimeOptions(source), (passes) => {
        expect(() => passes.runtime.submitLoadWeight(0, 0, [])).toThrow(
          expect.objectContaining({ code: 'invalid-argument' }),
        );
        return Promise.resolve();
      });
    });
  });

  test('end when all are cancelled, or the runtime is closed, amid reads', async () => {
    await withStore(model('llama-F32.gguf'), async (source, store) => {
      for (let round = 0; round < 10; round++) {
        const runtime = addon.openRuntime(
          runtimeOptions(source, { store, fingerprint: FINGERPRINT, residentLayerBytes: 0, buffers: 2 }),
        );
        await runtime.load(() => undefined);
        const passes = new StreamedPasses(runtime, source.decoder.layers, 64, 2);
        const loads = (count: number) =>
          Array.from({ length: count }, (_, i) => runtime.submitLoadWeight(i % source.decoder.layers, i % 2, []));
        const cancelled = loads(60).map((event) => passes.outcome(event));
        await new Promise((resolve) => setTimeout(resolve, round % 3));
        runtime.cancelAll();
        for (const outcome of await Promise.all(cancelled))
          if (outcome !== undefined) expect(outcome).toMatchObject({ code: 'cancelled' });
        const closed = loads(30).map((event) => passes.outcome(event));
        await Promise.all([runtime.close(), ...closed]);
      }
    });
  });
});

/** A file system of a few pages, where this process may mount one. */
function mountSmallDisk(): { readonly path: string; unmount(): void } | undefined {
  const path = mkdtempSync(join(tmpdir(), 'spillway-small-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', path], { stdio: 'ignore' });
  } catch {
    rmSync(path, { recursive: true });
    return undefined;
  }
  return {
    path,
    unmount() {
      execFileSync('umount', [path]);
      rmSync(path, { recursive: true });
    },
  };
}
