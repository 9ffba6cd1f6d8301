import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { readModel } from '../../src/model/readModel.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { parsedArgument } from '../../src/plan/parsed.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import { shapeOfModel, shapeSchema, type ModelShape } from '../../src/plan/ModelShape.js';

const readFixture = (name: string): ReturnType<typeof readModel> =>
  readModel(fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url)));

describe('how a file mixes types', () => {
  test('is said by shares of its matrices: norms and routers count for nothing', async () => {
    const model = await readFixture('qwen3-moe-Q4_0.gguf');
    expect(new Set(model.bindings.map(({ type }) => type))).toContain('F32');
    expect(shapeOfModel(model, 'moe').weightMix).toBeUndefined();
    // As llama.cpp makes Q4_K_M: more bits for values and for what leads out of the block.
    const more = /^v\.|down/;
    const mixed = {
      ...model,
      bindings: model.bindings.map((binding) =>
        binding.kind === 'vector' || binding.layer < 0 || binding.role === 'router.weight'
          ? binding
          : { ...binding, type: more.test(binding.role) ? ('Q6_K' as const) : ('Q4_K' as const) },
      ),
    };
    const elements = (which: (role: string) => boolean): number =>
      mixed.bindings
        .filter(({ kind, layer, role }) => kind === 'matrix' && layer >= 0 && role !== 'router.weight' && which(role))
        .reduce((sum, { rows, columns }) => sum + rows * columns, 0);
    const shape = shapeOfModel(mixed, 'moe');
    const precise = elements((role) => more.test(role)) / elements(() => true);
    expect(precise).toBeGreaterThan(0.2);
    expect(shape.weightType).toBe('Q4_K');
    expect(shape.weightMix).toEqual({ Q4_K: expect.closeTo(1 - precise, 12), Q6_K: expect.closeTo(precise, 12) });
    expect(shapeSchema.parse(shape)).toEqual(shape);
  });

  test.each<[ModelShape['weightMix'], string]>([
    [{ Q4_K: 0.8, Q6_K: 0.3 }, ': found {"Q4_K":0.8,"Q6_K":0.3}, expected shares that sum to 1'],
    [{ Q4_K: 0.8 }, ': found {"Q4_K":0.8}, expected shares that sum to 1'],
    [{}, ': found {}, expected shares that sum to 1'],
    [{ Q4_K: 1.5, Q6_K: -0.5 }, '.Q4_K: found 1.5, expected a number of at most 1'],
    [{ Q4_K: 0.5, Q9_K: 0.5 } as never, ': found the unknown field Q9_K, expected only known fields'],
  ])('%j is refused', (weightMix, sentence) => {
    const shape = { ...requireKnownShape('llama-2-7b'), weightMix };
    expect(() => parsedArgument(shapeSchema, shape, 'shape')).toThrow(new UsageError(`shape.weightMix${sentence}`));
  });
});
