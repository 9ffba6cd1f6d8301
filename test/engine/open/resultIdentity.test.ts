import { describe, expect, test } from '@jest/globals';
import { resultIdentity, resultIdentityKey, type IdentityFacts } from '../../../src/engine/open/resultIdentity.js';

const facts: IdentityFacts = {
  numerics: 1,
  model: 'm',
  precision: 'default',
  compressWeights: 'none',
  compressCache: 'none',
  sparseAttention: 1,
  instructionSet: 'avx512',
};
const gpu = {
  facts: { name: 'H200', computeCapability: '9.0' },
  products: 'own',
  cacheShare: 0.5,
  diskCache: { share: 0, mostPerRow: 0 },
};
const onDisk = { ...gpu, diskCache: { share: 0.25, mostPerRow: 4 } };
const keyOf = (change: Partial<IdentityFacts>): string => resultIdentityKey(resultIdentity({ ...facts, ...change }));

describe('resultIdentity', () => {
  test.each<[string, Partial<IdentityFacts>]>([
    ['numerics', { numerics: 2 }],
    ['model', { model: 'n' }],
    ['layers', { layers: { first: 0, count: 3 } }],
    ['precision', { precision: 'float32' }],
    ['compressWeights', { compressWeights: '8bit' }],
    ['weightsLayout', { weightsLayout: 'int8' }],
    ['compressCache', { compressCache: '4bit' }],
    ['sparseAttention', { sparseAttention: 0.5 }],
    ['instructions', { instructionSet: 'amx' }],
    ['gpu', { gpu }],
    ['gpu', { gpu: { ...gpu, facts: { ...gpu.facts, name: 'T4' } } }],
    ['gpu', { gpu: { ...gpu, facts: { ...gpu.facts, computeCapability: '7.5' } } }],
    ['gpu', { gpu: { ...gpu, products: 'cublaslt 120803' } }],
    ['gpu', { gpu: { ...gpu, cacheShare: 1 } }],
    ['gpu', { gpu: onDisk }],
  ])('tells engines of another %s apart: %j', (name, change) => {
    const [one, other] = [resultIdentity(facts), resultIdentity({ ...facts, ...change })];
    expect(
      Object.keys(other).filter(
        (key) => JSON.stringify(Reflect.get(one, key)) !== JSON.stringify(Reflect.get(other, key)),
      ),
    ).toEqual([name]);
    expect(keyOf(change)).not.toBe(keyOf({}));
    if (change.gpu) expect(change.gpu === gpu || keyOf(change) !== keyOf({ gpu })).toBe(true);
  });

  test('tells encoders in 8 bits apart that leave other numbers of matrices as they are; nothing else is', () => {
    const eight = { compressWeights: '8bit' } as const;
    expect(keyOf({ ...eight, sixteenBits: 8 })).not.toBe(keyOf(eight));
    expect(keyOf({ ...eight, sixteenBits: 0 })).toBe(keyOf(eight));
    expect(keyOf({ sixteenBits: 8 })).toBe(keyOf({}));
  });

  test.each([
    { share: 0.5, mostPerRow: 4 },
    { share: 0.25, mostPerRow: 3 },
  ])('tells engines apart that have another part of the cache on disk: %j', (diskCache) => {
    expect(keyOf({ gpu: { ...onDisk, diskCache } })).not.toBe(keyOf({ gpu: onDisk }));
  });

  test.each<[string, Partial<IdentityFacts>, Partial<IdentityFacts>]>([
    ['plain C++ and AVX2', { instructionSet: 'scalar' }, { instructionSet: 'avx2' }],
    ['AMX and others in float32', { precision: 'float32', instructionSet: 'amx' }, { precision: 'float32' }],
    ['processors beside a GPU', { gpu, instructionSet: 'amx' }, { gpu }],
    ['a cache of which nothing is on disk', { gpu: { ...gpu, diskCache: { share: 0, mostPerRow: 7 } } }, { gpu }],
  ])('is one for %s', (_, one, other) => {
    expect(keyOf(one)).toBe(keyOf(other));
  });

  test('its key is that of its value, whatever the order of members, also of what a file gave back', () => {
    const identity = resultIdentity({ ...facts, gpu, layers: { first: 1, count: 2 } });
    const turned = Object.fromEntries(
      Object.entries({ ...identity, gpu: Object.fromEntries(Object.entries(identity.gpu ?? {}).reverse()) }).reverse(),
    );
    expect(resultIdentityKey(JSON.parse(JSON.stringify(turned)) as typeof identity)).toBe(resultIdentityKey(identity));
    expect(resultIdentityKey(identity)).toMatch(/^[0-9a-f]{64}$/);
  });
});
