import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { shapeOfModel } from '../../../src/plan/ModelShape.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import type { TensorBinding } from '../../../src/model/TensorBinding.js';
import { compressBindings } from '../../../src/model/compressBindings.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { attentionScratchBytes, type AttentionSetting } from '../../../src/plan/model/attentionMemory.js';
import { matmulKind } from '../../../src/plan/model/matmulKinds.js';
import type { Compression } from '../../../src/plan/Policy.js';
import { sizesOf } from '../../../src/plan/model/sizes.js';
import { workingMemory } from '../../../src/plan/model/workingMemory.js';
import { readModel } from '../../../src/model/readModel.js';

const MODELS = fileURLToPath(new URL('../../fixtures/models/', import.meta.url));
const CACHE_TYPES = { none: 'f16', '8bit': 'q8', '4bit': 'q4' } as const;
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
        { batchSize: rows, compressCache: 'none', spills: false },
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
      const planned = workingMemory(shape, 512, 2, matmulKind(shape, compressed), instructionSet, {
        batchSize: 64,
        compressCache: 'none',
        spills: false,
      });
      expect(planned.scratchBytes + planned.activationBytes).toBe(scratch + activations);
    }
});

/** A model whose heads are so wide, and whose rows so long: no file has one of this size. */
function withHeads(
  { decoder, bindings, files }: ModelSource,
  headDim: number,
  contextTokens: number,
): Pick<ModelSource, 'decoder' | 'bindings' | 'files'> {
  const times = headDim / decoder.headDim;
  const widened = (binding: TensorBinding): TensorBinding => {
    const { role, rows, columns, segments } = binding;
    if (role === 'o.weight') return { ...binding, columns: columns * times };
    if (!/^[qkv]\.weight$/.test(role)) return binding;
    return {
      ...binding,
      rows: rows * times,
      segments: segments.map((segment) => ({ ...segment, rows: segment.rows * times })),
    };
  };
  return { decoder: { ...decoder, headDim, contextTokens }, bindings: bindings.map(widened), files };
}

interface WideHeads {
  readonly headDim: number;
  readonly compressCache: Compression;
  readonly threads: number;
  readonly rows?: number;
  readonly sparseAttention?: number;
  readonly contextTokens?: number;
  readonly spills?: boolean;
}

test.each<WideHeads>([
  { headDim: 256, compressCache: 'none', threads: 64 },
  { headDim: 256, compressCache: 'none', threads: 128, rows: 4096 },
  { headDim: 176, compressCache: 'none', threads: 64 },
  { headDim: 512, compressCache: 'none', threads: 32, sparseAttention: 0.1, contextTokens: 1000 },
  { headDim: 256, compressCache: '8bit', threads: 64, sparseAttention: 0.1, contextTokens: 32_768 },
  { headDim: 176, compressCache: '4bit', threads: 64, sparseAttention: 0.5, contextTokens: 32_768 },
  { headDim: 256, compressCache: 'none', threads: 16, sparseAttention: 0.1, contextTokens: 8_192, spills: true },
  { headDim: 176, compressCache: '4bit', threads: 16, sparseAttention: 0.1, contextTokens: 8_200, spills: true },
])(
  'so is what attention takes of each thread, where that is the most: %p',
  async ({ headDim, threads, compressCache, rows = 64, contextTokens = 2048, spills = false, sparseAttention }) => {
    const tokens = Math.max(512, rows);
    const source = withHeads(await readModel(`${MODELS}llama`), headDim, contextTokens);
    const { scratch } = loadAddon().measureRuntime({
      ...source,
      precision: 'default',
      threads,
      cache: { type: CACHE_TYPES[compressCache], pageTokens: 32, pages: 1 },
      ...(sparseAttention !== undefined && { sparseAttention }),
      ...(spills && { spill: { folder: tmpdir(), pages: 4, buffers: 1, bufferPages: 4, hiddenBytes: 0 } }),
      limits: { tokensPerSquare: tokens, rowsPerSquare: rows },
    });
    const shape = shapeOfModel(source, 'wide');
    const planned = (attention: AttentionSetting | undefined): number =>
      workingMemory(shape, tokens, threads, matmulKind(shape, 'none'), undefined, attention).scratchBytes;
    expect(planned({ batchSize: rows, compressCache, sparseAttention, spills })).toBe(scratch);
    // Nothing else takes as much, so that it is attention which is looked at.
    expect(planned(undefined)).toBeLessThan(scratch);
  },
);

test('where no layer attends, attention takes nothing', () => {
  const shape = {
    ...requireKnownShape('opt-1.3b'),
    mixers: [{ layers: 24, projected: 64, mixed: 64, stateFloats: 64 }],
  };
  expect(attentionScratchBytes(shape, 8, { batchSize: 4, compressCache: 'none', spills: false })).toBe(0);
});
