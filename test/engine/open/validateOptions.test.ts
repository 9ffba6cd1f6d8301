import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { checkEngineOptions, requestedOptions, resolveExpectedRows } from '../../../src/engine/open/validateOptions.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { builtIn } from '../../plan/support/hardware.js';

const model = 'model.gguf';
const machine = loadAddon().machine();

describe('checkEngineOptions', () => {
  test('takes what makes sense, as it is; what is undefined is as good as absent', () => {
    const options = {
      model,
      layers: { first: 0, count: 2 },
      policy: 'default' as const,
      hardware: 'this' as const,
      expectedRows: { promptTokens: 2.5, newTokens: 0, rows: 0 },
      rowTokens: () => Promise.resolve(3),
      cpuMemory: '2GiB',
      gpuMemory: 0,
      weights: { cpu: 0.25, disk: 0.75 },
      signal: new AbortController().signal,
      onLoad: () => undefined,
      learn: false,
    };
    expect(checkEngineOptions({ ...options, threads: undefined })).toStrictEqual(options);
    expect(checkEngineOptions(Object.create({ model, threads: 2 }))).toStrictEqual({ model, threads: 2 });
  });

  test('a policy is taken as a policy file is: whole documents too, with what is missing filled in', () => {
    const policy = parsePolicy({ batchSize: 8 }, 'test');
    for (const given of [{ batchSize: 8 }, policy, { model: 'of a plan', policy: { batchSize: 8 }, predicted: {} }])
      expect(checkEngineOptions({ model, policy: given }).policy).toEqual(policy);
    expect(checkEngineOptions({ model, policy: {} }).policy).toEqual(parsePolicy({}, 'test'));
  });

  test('of the policy that a run had, the options are followed, unless others stand beside it', () => {
    const policy = parsePolicy({ batchSize: 8, sparseAttention: 0.25, precision: 'float32' }, 'test');
    const { numerics } = requestedOptions({ model, policy }, machine).settings;
    expect(numerics).toMatchObject({ sparseAttention: 0.25, precision: 'float32' });
    expect(requestedOptions({ model, policy, sparseAttention: 1 }, machine).settings.numerics.sparseAttention).toBe(1);
    // Without a GPU what a policy says of one means nothing.
    const onGpu = { ...policy, gpuProducts: 'cublaslt', cpuAttention: 0.5 } as const;
    expect(requestedOptions({ model, policy: onGpu }, machine).settings.memory.gpu).toBeUndefined();
  });

  test('a profile is taken as a hardware file is', () => {
    const hardware = builtIn('flexgen-t4');
    expect(checkEngineOptions({ model, hardware }).hardware).toEqual(hardware);
  });

  test.each<[unknown, string]>([
    [undefined, 'options: found undefined, expected an object'],
    [null, 'options: found null, expected an object'],
    [model, 'options: found "model.gguf", expected an object'],
    [{}, 'model: found nothing, expected a path or a known id'],
    ...[5, null, {}, new URL('file:///model.gguf')].map((value): [unknown, string] => [
      { model: value },
      'expected a path or a known id',
    ]),
    ...(
      [
        [{ thread: 2 }, 'options: found the unknown "thread", expected any of model, layers,'],
        [{ layers: { first: 0 } }, 'layers: found an object with first, expected first and count'],
        [{ layers: { first: -1, count: 1 } }, 'layers.first: found -1, expected a whole number of at least 0'],
        [{ policy: 'defualt' }, 'policy: found "defualt", expected auto, default or a policy'],
        [{ policy: null }, 'policy: found null, expected auto, default or a policy'],
        [{ policy: [] }, 'policy: found an array of 0, expected auto, default or a policy'],
        [{ policy: { batchsize: 8 } }, 'policy: document: found the unknown field batchsize'],
        [{ policy: { batchSize: 5n } }, 'policy: batchSize: found 5n, expected'],
        [{ policy: { threads: () => 2 } }, 'policy: threads: found a function, expected'],
        [{ hardware: null }, 'hardware: found null, expected this or a profile'],
        [{ hardware: 'flexgen-t4' }, 'hardware: found "flexgen-t4", expected this or a profile'],
        [{ hardware: {} }, 'hardware: format: found nothing, expected'],
        [{ learn: 'off' }, 'learn: found "off", expected true or false'],
        [
          { expectedRows: { promptTokens: -5, newTokens: 1 } },
          'expectedRows.promptTokens: found -5, expected a number of at least 0',
        ],
        [
          { expectedRows: { promptTokens: 5, newTokens: '1' } },
          'expectedRows.newTokens: found "1", expected a number of at least 0',
        ],
        [
          { expectedRows: { promptTokens: 5 } },
          'expectedRows: found an object with promptTokens, expected promptTokens and newTokens',
        ],
        [
          { expectedRows: { promptTokens: 5, newTokens: 1, rows: 0.5 } },
          'expectedRows.rows: found 0.5, expected a whole number of at least 0',
        ],
        [{ threads: '2' }, 'threads: found "2", expected a whole number from 1 to 1024'],
        [{ threads: null }, 'threads: found null, expected a whole number'],
        [{ cpuMemory: NaN }, 'cpuMemory: found NaN, expected a size'],
        [{ cpuMemory: ['2GiB'] }, 'cpuMemory: found an array of 1, expected a size'],
        [{ gpuMemory: null }, 'gpuMemory: found null, expected a size'],
        [{ weights: null }, 'weights: found null, expected an object'],
        [{ weights: { cpu: 0.5, disc: 0.5 } }, 'weights: found the unknown "disc", expected any of gpu, cpu, disk'],
        [{ weights: { cpu: 1 } }, 'weights: found {"cpu":1}, expected shares gpu, cpu and disk that sum to 1'],
        [{ cache: { cpu: '1', disk: 0 } }, 'cache.cpu: found "1", expected a number of at least 0'],
        [{ disk: 5 }, 'disk: found 5, expected the path of a folder'],
        [{ onPlan: 'x' }, 'onPlan: found "x", expected a function'],
        [{ onLoad: 3 }, 'onLoad: found 3, expected a function'],
        [{ signal: { aborted: false } }, 'signal: found an object with aborted, expected an AbortSignal'],
      ] as const
    ).map(([more, message]): [unknown, string] => [{ model, ...more }, message]),
  ])('%# is refused with what was found and what was expected', (options, message) => {
    expect(() => checkEngineOptions(options)).toThrow(message);
    expect(() => checkEngineOptions(options)).toThrow(UsageError);
  });

  test('whatever stands under an option, it is taken or refused by UsageError', () => {
    const names = [
      'model',
      'layers',
      'precision',
      'policy',
      'hardware',
      'learn',
      'expectedRows',
      'schedule',
      'compressWeights',
      'weightsLayout',
      'compressCache',
      'sparseAttention',
      'gpuMemory',
      'gpuProducts',
      'cpuMemory',
      'threads',
      'device',
      'batchSize',
      'batches',
      'tokensPerSquare',
      'rowTokens',
      'instructionSet',
      'weights',
      'cache',
      'activations',
      'disk',
      'diskMemory',
      'onProfile',
      'onLoad',
      'signal',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...names),
        fc.anything({ withBigInt: true, withNullPrototype: true, withTypedArray: true, withDate: true, withMap: true }),
        (name, value) => {
          try {
            checkEngineOptions({ model, [name]: value });
          } catch (error) {
            expect(error).toBeInstanceOf(UsageError);
          }
        },
      ),
      { numRuns: 1000 },
    );
  });
});

const told = (more: Partial<EngineOptions>): ReturnType<typeof resolveExpectedRows> =>
  resolveExpectedRows({ model: 'none', ...more }, letterTokenizer());

describe('resolveExpectedRows', () => {
  test('what is said of the rows says how long a long one is; what is known of none is left open', async () => {
    const expectedRows = { promptTokens: 10.5, newTokens: 4 };
    expect(await told({ expectedRows, rowTokens: 99 })).toEqual({ expected: expectedRows, rowTokens: 15 });
    expect(
      await told({ expectedRows: () => Promise.resolve(undefined), rowTokens: () => Promise.resolve(99) }),
    ).toEqual({ expected: undefined, rowTokens: 99 });
    expect(await told({})).toEqual({ expected: undefined, rowTokens: undefined });
  });

  test('answers without a limit are as long as a row may be', async () => {
    expect((await told({ expectedRows: { promptTokens: 1, newTokens: 2 ** 31 } })).rowTokens).toBe(2 ** 24);
  });

  test('what functions find out is checked as what is said is', async () => {
    await expect(told({ expectedRows: () => Promise.resolve({ promptTokens: 1, newTokens: -1 }) })).rejects.toThrow(
      'expectedRows.newTokens: found -1, expected a number of at least 0',
    );
    await expect(told({ expectedRows: () => Promise.resolve(null as never) })).rejects.toThrow(UsageError);
    await expect(told({ rowTokens: () => Promise.resolve('9' as never) })).rejects.toThrow(
      'rowTokens: found "9", expected a whole number',
    );
  });
});
