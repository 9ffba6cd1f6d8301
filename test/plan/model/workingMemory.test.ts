import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { shapeOfModel } from '../../../src/plan/ModelShape.js';
import { compressBindings } from '../../../src/model/compressBindings.js';
import { matmulKind } from '../../../src/plan/model/matmulKinds.js';
import { sizesOf } from '../../../src/plan/model/sizes.js';
import { workingMemory } from '../../../src/plan/model/workingMemory.js';
import { readModel } from '../../../src/model/readModel.js';

const MODELS = fileURLToPath(new URL('../../fixtures/models/', import.meta.url));
const names = [
  'llama-Q8_0.gguf',
  'llama',
  'qwen2',
  'gpt-neox',
  'falcon-new-Q8_0.gguf',
  'mixtral',
  'gemma3-mixed.gguf',
  'opt-pre',
  'qwen3-5',
  'lfm2',
  'bamba',
  'recurrent-gemma-window',
];
// Rows of these tiny models' ranks are too short for what compresses weights.
const latent = ['minicpm3', 'youtu', 'deepseek-v2', 'glm4-moe-lite'];

test.each([...names, ...latent])('the memory that plans count is what the runtime reserves: %s', async (name) => {
  const source = await readModel(`${MODELS}${name}`);
  const shape = shapeOfModel(source, name);
  const { instructionSets } = loadAddon().machine();
  for (const instructionSet of instructionSets)
    for (const [tokens, rows, threads] of [
      [512, 64, 2],
      [64, 8, 4],
      [2048, 256, 1],
    ] as const) {
      const reserved = loadAddon().measureRuntime({
        decoder: source.decoder,
        bindings: source.bindings,
        files: source.files,
        precision: 'default',
        threads,
        instructionSet,
        cache: { type: 'f16', pageTokens: 32, pages: 1, ...(source.decoder.recurrent && { states: 1 }) },
        limits: { tokensPerSquare: tokens, rowsPerSquare: rows },
      });
      const { scratchBytes, activationBytes } = workingMemory(
        shape,
        tokens,
        threads,
        matmulKind(shape, 'none'),
        instructionSet,
      );
      const { pageBytes, rowStateBytes } = sizesOf({
        shape,
        workload: { promptTokens: 8, newTokens: 8 },
        block: {
          schedule: 'zigzag',
          batchSize: rows,
          batches: 1,
          compressWeights: 'none',
          compressCache: 'none',
          cpuAttention: true,
        },
      });
      const planned =
        shape.layers * shape.layerWeightBytes + shape.globalWeightBytes + scratchBytes + activationBytes + pageBytes;
      const real = reserved.weights + reserved.scratch + reserved.activations + reserved.cache;
      expect(Math.abs(planned / real - 1)).toBeLessThan(0.03);
      expect(scratchBytes + activationBytes).toBe(reserved.scratch + reserved.activations);
      expect(rowStateBytes).toBe(reserved.state);
      // Heads of an odd size, as in one of the tiny models, are padded in their pages.
      if (shape.headDim % 16 === 0) expect(pageBytes).toBe(reserved.cache);
    }
});

test.each(names)('also where weights are compressed: %s', async (name) => {
  const source = await readModel(`${MODELS}${name}`);
  const shape = shapeOfModel(source, name);
  const { instructionSets } = loadAddon().machine();
  for (const compressed of ['8bit', '4bit'] as const)
    for (const instructionSet of instructionSets) {
      const { scratch, activations } = loadAddon().measureRuntime({
        decoder: source.decoder,
        bindings: compressBindings(source.bindings, compressed),
        files: source.files,
        precision: 'default',
        threads: 2,
        instructionSet,
        cache: { type: 'f16', pageTokens: 32, pages: 1, ...(source.decoder.recurrent && { states: 1 }) },
        limits: { tokensPerSquare: 512, rowsPerSquare: 64 },
      });
      const planned = workingMemory(shape, 512, 2, matmulKind(shape, compressed), instructionSet);
      expect(planned.scratchBytes + planned.activationBytes).toBe(scratch + activations);
    }
});
