import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { greedyRow } from './support/runPass.js';
import { makeTinyModel, type TinyModel } from './support/tinyModel.js';

// Whatever is passed in whatever order, a call returns or throws a coded error: the process survives, and so does the
// object. A crash ends this file's process, so nothing of it can pass unnoticed.

const addon = loadAddon();
let model: TinyModel;
let folder: string;
beforeAll(() => {
  model = makeTinyModel();
  folder = mkdtempSync(join(tmpdir(), 'spillway-fuzz-'));
});
afterAll(() => {
  model.remove();
  rmSync(folder, { recursive: true });
});
const spill = () => ({ folder, pages: 8, buffers: 2, bufferPages: 6, hiddenBytes: 16384 });

const throwing = new Proxy(
  {},
  {
    get: () => {
      throw new RangeError('a getter of the caller');
    },
  },
);

/** Any JavaScript value, with a liking for what is nearly right. */
const anything: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -2, max: 70 }) },
  { weight: 1, arbitrary: fc.double() },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(
      undefined,
      null,
      true,
      NaN,
      Infinity,
      -0,
      2 ** 31,
      2 ** 32,
      2 ** 53,
      1e300,
      10n,
      Symbol('s'),
      '',
      'f32',
      () => 1,
      {},
      [],
      throwing,
      new Date(),
    ),
  },
  { weight: 2, arbitrary: fc.array(fc.integer({ min: -1, max: 40 }), { maxLength: 20 }) },
  {
    weight: 4,
    arbitrary: fc.array(fc.integer({ min: -1, max: 40 }), { maxLength: 24 }).map((numbers) => Int32Array.from(numbers)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(
      new Float32Array(3),
      new Uint8Array(64),
      new ArrayBuffer(8),
      new Int32Array(new SharedArrayBuffer(16)),
      new Array(2 ** 31),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.anything({ withBigInt: true, withTypedArray: true, withSparseArray: true, withNullPrototype: true }),
  },
);

const methods = [
  'load',
  'onCompleted',
  'createRow',
  'freeRow',
  'createActivations',
  'freeActivations',
  'createBatch',
  'freeBatch',
  'submitCompute',
  'submitLoadWeight',
  'createHiddenStore',
  'freeHiddenStore',
  'submitLoadCache',
  'submitStoreCache',
  'submitLoadActivation',
  'submitStoreActivation',
  'submitReadHidden',
  'giveBackHidden',
  'createEvent',
  'completeEvent',
  'failEvent',
  'writeHidden',
  'appendTokens',
  'cancelAll',
  'close',
  'bytes',
  'moved',
  'instructionSet',
] as const;

const callbacks = fc.constantFrom<unknown>(
  () => undefined,
  () => undefined,
  5,
);
const small = fc.integer({ min: 0, max: 3 });
const rowArray = fc
  .array(
    fc.tuple(
      small,
      fc.integer({ min: -1, max: 20 }),
      fc.integer({ min: 0, max: 20 }),
      fc.integer({ min: 0, max: 3 }),
      small,
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: -1, max: 16 }),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((entries) => Int32Array.from(entries.flat()));
const rowOptions = fc.record({
  ...Object.fromEntries(
    Object.entries(greedyRow).map(([key, value]) => [
      key,
      fc.oneof({ weight: 30, arbitrary: fc.constant<unknown>(value) }, { weight: 1, arbitrary: anything }),
    ]),
  ),
  tokens: fc.oneof(
    {
      weight: 8,
      arbitrary: fc
        .array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 12 })
        .map((ids) => Int32Array.from(ids)),
    },
    { weight: 1, arbitrary: anything },
  ),
  capacityTokens: fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 8, max: 40 }) },
    { weight: 1, arbitrary: anything },
  ),
});

const events = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 2 });

/** A call that often makes sense. */
const sensibleCall = fc.oneof(
  fc.tuple(fc.constant('createRow' as const), fc.tuple(rowOptions)),
  fc.tuple(fc.constantFrom('freeRow' as const, 'freeBatch' as const, 'freeActivations' as const), fc.tuple(small)),
  fc.tuple(fc.constant('createActivations' as const), fc.tuple(fc.integer({ min: 1, max: 64 }))),
  fc.tuple(
    fc.constant('createBatch' as const),
    fc.tuple(
      rowArray,
      fc
        .array(fc.oneof(fc.integer({ min: 0, max: 16 }), fc.integer({ min: -9, max: 3 })), { maxLength: 8 })
        .map((ids) => Int32Array.from(ids)),
      fc.array(fc.integer({ min: -1, max: 16 }), { maxLength: 4 }).map((ids) => Int32Array.from(ids)),
    ),
  ),
  fc.tuple(
    fc.constant('submitCompute' as const),
    fc.tuple(
      fc.integer({ min: 0, max: 4 }),
      fc.integer({ min: 0, max: 2 }),
      small,
      small,
      events,
      fc.constant(-1),
      fc.integer({ min: -1, max: 2 }),
    ),
  ),
  fc.tuple(
    fc.constantFrom('submitLoadCache' as const, 'submitStoreCache' as const),
    fc.tuple(fc.integer({ min: 0, max: 2 }), small, fc.integer({ min: 0, max: 2 }), events),
  ),
  fc.tuple(
    fc.constantFrom('submitLoadActivation' as const, 'submitStoreActivation' as const),
    fc.tuple(small, small, fc.integer({ min: 0, max: 40 }), events),
  ),
  fc.tuple(
    fc.constant('createHiddenStore' as const),
    fc.tuple(fc.integer({ min: 0, max: 66 }), fc.integer({ min: 0, max: 66 })),
  ),
  fc.tuple(fc.constant('freeHiddenStore' as const), fc.tuple(small)),
  fc.tuple(fc.constant('createEvent' as const), fc.constant([])),
  fc.tuple(
    fc.constantFrom('completeEvent' as const, 'failEvent' as const),
    fc.tuple(fc.integer({ min: 0, max: 9 }), fc.constantFrom<unknown>('it broke', 5)),
  ),
  fc.tuple(
    fc.constant('appendTokens' as const),
    fc.tuple(
      fc.array(small, { maxLength: 3 }).map((ids) => Int32Array.from(ids)),
      fc.array(fc.integer({ min: -1, max: 60 }), { maxLength: 3 }).map((ids) => Int32Array.from(ids)),
    ),
  ),
  fc.tuple(
    fc.constant('writeHidden' as const),
    fc.tuple(
      small,
      fc.integer({ min: 0, max: 9 }).map((tokens) => new Float32Array(16 * tokens)),
    ),
  ),
  fc.tuple(fc.constant('onCompleted' as const), fc.tuple(callbacks)),
  fc.tuple(fc.constantFrom('cancelAll' as const, 'bytes' as const, 'moved' as const), fc.constant([])),
);
const wildCall = fc.tuple(fc.constantFrom(...methods), fc.array(anything, { maxLength: 6 }));

/** Errors that are not ours: the caller's own, and V8's for a method of a class on a foreign object. */
const foreign = ['a getter of the caller', 'Illegal invocation'];

/** Calls and checks that what is thrown is coded, or not ours. */
function attempt(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (!foreign.includes(String(message))) expect(['invalid-argument', 'file', 'memory', 'internal']).toContain(code);
    return undefined;
  }
}

function callMethod(target: object, name: string, args: readonly unknown[]): unknown {
  const member: unknown = Reflect.get(target, name);
  return typeof member === 'function' ? Reflect.apply(member, target, [...args]) : member;
}

describe('the addon survives', () => {
  test('any options', () => {
    fc.assert(
      fc.property(anything, fc.constantFrom('openRuntime', 'measureRuntime', 'machine'), (value, name) => {
        const result = attempt(() => callMethod(addon, name, [value]));
        if (name !== 'machine') expect(result).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  test('valid options with any value in any place', () => {
    const places = (value: unknown, path: readonly string[] = []): string[][] => {
      if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [[...path]];
      return [[...path], ...Object.entries(value).flatMap(([key, child]) => places(child, [...path, key]))];
    };
    const replace = (value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown => {
      if (key === undefined) return by;
      if (Array.isArray(value))
        return value.map((child: unknown, index) => (String(index) === key ? replace(child, rest, by) : child));
      return { ...(value as object), [key]: replace(Reflect.get(value as object, key), rest, by) };
    };
    const options = model.options({ spill: spill() });
    fc.assert(
      fc.property(fc.constantFrom(...places(options)), anything, (path, value) => {
        const changed = replace(options, path, value);
        const measured = attempt(() => callMethod(addon, 'measureRuntime', [changed]));
        // A cache of billions of pages may be measured, but is not asked of the system here.
        const asked = measured as { cache: number; staging: number; spill: number } | undefined;
        if (asked !== undefined && Math.max(asked.cache, asked.staging, asked.spill) > 2 ** 30) return;
        if (path.at(-1) === 'folder' && typeof value === 'string') return; // it would be made
        const runtime = attempt(() => callMethod(addon, 'openRuntime', [changed]));
        if (runtime === undefined) return;
        const { bytes } = runtime as { bytes: { spillBlock: number } };
        // The blocks of a disk are known once a file is open there.
        expect({ ...asked, spillBlock: bytes.spillBlock }).toEqual(bytes);
      }),
      { numRuns: 3000 },
    );
  });

  test('any calls in any order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.boolean(),
        fc.array(fc.oneof({ weight: 12, arbitrary: sensibleCall }, { weight: 3, arbitrary: wildCall }), {
          minLength: 5,
          maxLength: 60,
        }),
        async (loaded, spilling, calls) => {
          const runtime = addon.openRuntime(model.options(spilling ? { spill: spill() } : {}));
          const seen = new Set<number>();
          let submitted = 0;
          let taken = false;
          if (loaded) {
            await runtime.load(() => undefined);
            runtime.onCompleted(({ events }) => {
              for (let i = 0; i < events.length; i += 4) seen.add(events[i] ?? 0);
            });
            taken = true;
            runtime.createRow({ ...greedyRow, tokens: Int32Array.of(1, 2, 3, 4), capacityTokens: 20 });
            runtime.createActivations(64);
            runtime.createBatch(Int32Array.of(0, 0, 4, 1, 0, 2, -1), Int32Array.of(0, 1));
            if (spilling) {
              runtime.createRow({
                ...greedyRow,
                tokens: Int32Array.from({ length: 40 }, (_, i) => i),
                capacityTokens: 60,
              });
              runtime.createBatch(Int32Array.of(1, 0, 33, 1, 0, 3, 5), Int32Array.of(-1, -2, 6));
              runtime.createBatch(Int32Array.of(1, 33, 2, 1, 0, 3, 5), Int32Array.of(-1, -2, 6));
              runtime.createHiddenStore(40, 3);
            }
          }
          const promises: Promise<unknown>[] = [];
          for (const [name, args] of calls) {
            const result = attempt(() => callMethod(runtime, name, args));
            if ((name.startsWith('submit') || name === 'createEvent') && result !== undefined) submitted++;
            if (result instanceof Object && 'then' in result)
              promises.push(Promise.resolve(result as Promise<unknown>).catch(() => undefined));
          }
          await runtime.close();
          await Promise.all(promises);
          // Every task that was accepted has completed, once.
          if (taken) expect(seen.size).toBe(submitted);
          expect(readdirSync(folder)).toEqual([]);
        },
      ),
      { numRuns: 400 },
    );
  });

  test('methods on a foreign `this`, and its constructor', () => {
    const runtime = addon.openRuntime(model.options());
    const prototype: object = Object.getPrototypeOf(runtime) as object;
    fc.assert(
      fc.property(fc.constantFrom(...methods), anything, fc.array(anything, { maxLength: 3 }), (name, self, args) => {
        const descriptor = Object.getOwnPropertyDescriptor(prototype, name);
        const method = descriptor?.value ?? descriptor?.get;
        expect(typeof method).toBe('function');
        expect(attempt(() => Reflect.apply(method as () => unknown, self, args))).toBeUndefined();
        expect(attempt(() => Reflect.construct(runtime.constructor as new () => object, args))).toBeUndefined();
        expect(attempt(() => Reflect.apply(method as () => unknown, Object.create(runtime), args))).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });
});
