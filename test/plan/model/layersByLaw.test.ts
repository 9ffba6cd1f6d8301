import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { describeDecoder } from '../../../src/model/architectures/index.js';
import type { BlockSetting } from '../../../src/plan/CostModel.js';
import {
  attentionElements,
  mixersOf,
  shapeOfDecoder,
  shapeSchema,
  type ModelShape,
} from '../../../src/plan/ModelShape.js';
import { shapeOfStage } from '../../../src/plan/pipeline/stageCost.js';
import { sizesOf } from '../../../src/plan/model/sizes.js';
import { PAGE_TOKENS } from '../../../src/plan/reserves.js';
import { cacheGroups, groupRules } from '../../../src/engine/memory/cacheGroups.js';
import { placePages } from '../../../src/engine/memory/placePages.js';

const BLOCK: BlockSetting['block'] = {
  schedule: 'zigzag',
  batchSize: 8,
  batches: 2,
  tokensPerSquare: 512,
  compressWeights: 'none',
  compressCache: 'none',
  cpuAttention: true,
};

const GEMMA3_4B = shapeOf({
  model_type: 'gemma3_text',
  num_hidden_layers: 34,
  hidden_size: 2560,
  intermediate_size: 10240,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  sliding_window: 1024,
  vocab_size: 262208,
  max_position_embeddings: 131072,
  query_pre_attn_scalar: 256,
});
const QWEN35_4B = shapeOf({
  model_type: 'qwen3_5_text',
  num_hidden_layers: 32,
  hidden_size: 2560,
  intermediate_size: 9216,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  head_dim: 256,
  linear_num_key_heads: 16,
  linear_num_value_heads: 32,
  linear_key_head_dim: 128,
  linear_value_head_dim: 128,
  vocab_size: 248320,
  max_position_embeddings: 262144,
});

function shapeOf(config: Readonly<Record<string, unknown>>): ModelShape {
  return shapeOfDecoder(describeDecoder(config, 'config.json'), 'a model', { tied: true });
}

const rowBytes = (shape: ModelShape, positions: number): number => {
  const sizes = sizesOf({ shape, workload: { promptTokens: positions, newTokens: 1 }, block: BLOCK });
  return sizes.rowPages * sizes.pageBytes + sizes.rowStateBytes;
};
const allPositions = (shape: ModelShape): ModelShape => ({ ...shape, mixers: undefined });

describe('what a row takes', () => {
  test('of a Gemma 3 4B is the last 1024 positions in 29 of 34 layers', () => {
    // 4000 positions are 125 pages; a window keeps those of 1023 + 1023 positions, which begin anywhere in a page.
    const [all, kept] = [125, Math.ceil((1023 + 2 * 512 - 1) / PAGE_TOKENS) + 1];
    const pageBytes = 2 * 4 * 256 * 2 * PAGE_TOKENS;
    expect(rowBytes(GEMMA3_4B, 4000)).toBeCloseTo((5 * all + 29 * kept) * pageBytes, 3);
    expect(rowBytes(GEMMA3_4B, 4000) / rowBytes(allPositions(GEMMA3_4B), 4000)).toBeCloseTo(0.5906, 4);
    expect(rowBytes(GEMMA3_4B, 512)).toBe(rowBytes(allPositions(GEMMA3_4B), 512));
  });

  test('of a Qwen 3.5 4B is all positions in 8 of 32 layers, and a state in the others', () => {
    const pages = 125 * 8 * 2 * 4 * 256 * 2 * PAGE_TOKENS;
    const state = 24 * (4 * (3 * (2 * 16 * 128 + 32 * 128) + 32 * 128 * 128) + 64);
    expect(rowBytes(QWEN35_4B, 4000)).toBeCloseTo(pages + state, 3);
    expect(rowBytes(QWEN35_4B, 4000)).toBeLessThan(0.36 * rowBytes(allPositions(QWEN35_4B), 4000));
  });

  test('on a GPU is all positions, for its layers name pages to each other', () => {
    const hardware = { memory: { gpuBytes: 2 ** 34 } } as BlockSetting['hardware'];
    const setting = { workload: { promptTokens: 4000, newTokens: 1 }, block: BLOCK, hardware };
    expect(sizesOf({ ...setting, shape: GEMMA3_4B }).pageBytes).toBe(
      sizesOf({ ...setting, shape: allPositions(GEMMA3_4B) }).pageBytes,
    );
  });

  test('is what the engine keeps, for any windows, rows and squares, but for what groups of like width leave empty', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(0, 0, 33, 128, 1024), fc.integer({ min: 1, max: 12 })), {
          minLength: 1,
          maxLength: 4,
        }),
        fc.integer({ min: 1, max: 9000 }),
        fc.constantFrom(64, 256, 512),
        (kinds, positions, tokensPerSquare) => {
          const windows = kinds.flatMap(([window, layers]) => new Array<number>(layers).fill(window));
          const shape: ModelShape = {
            ...GEMMA3_4B,
            layers: windows.length,
            mixers: kinds.map(([window, layers]) => ({ layers, projected: 4096, mixed: 2048, window })),
          };
          const { rowPages, pageBytes, tokenCacheBytes } = sizesOf({
            shape,
            workload: { promptTokens: positions, newTokens: 1 },
            block: { ...BLOCK, tokensPerSquare },
          });
          const planned = (rowPages * pageBytes) / (tokenCacheBytes * PAGE_TOKENS);
          const groups = cacheGroups(windows, positions);
          const { pages } = placePages(positions, {
            pageTokens: PAGE_TOKENS,
            diskShare: 0,
            mostDiskPages: Infinity,
            ...groupRules(groups, { tokensPerSquare }),
          });
          const kept = pages.memory * groups.width;
          expect(kept).toBeGreaterThanOrEqual(Math.floor(planned));
          expect(kept).toBeLessThanOrEqual(planned + windows.length * rowPages * (1 / 24) + 1e-6);
        },
      ),
      { numRuns: 300 },
    );
  });
});

test('layers that are alike are of one kind, and a model whose layers all keep all positions names none', () => {
  expect(GEMMA3_4B.mixers?.map(({ layers, window }) => [layers, window])).toEqual([
    [29, 1024],
    [5, 0],
  ]);
  expect(QWEN35_4B.mixers?.map(({ layers, window }) => [layers, window])).toEqual([
    [24, undefined],
    [8, 0],
  ]);
  const llama = shapeOf({ model_type: 'llama', num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4 });
  expect(llama).not.toHaveProperty('mixers');
  expect(mixersOf(llama)).toHaveLength(1);
});

test('engines that share a model keep all pages, and plans count them', () => {
  const kept = (shape: ModelShape): number =>
    sizesOf({ shape, workload: { promptTokens: 4000, newTokens: 1 }, block: BLOCK }).keptShare;
  expect(kept(GEMMA3_4B)).toBeLessThan(0.6);
  const half = { shape: GEMMA3_4B, layers: 17, embeds: true, samples: false };
  expect(kept(shapeOfStage(half))).toBe(1);
  // One engine has all layers.
  expect(kept(shapeOfStage({ ...half, layers: 34 }))).toBe(kept(GEMMA3_4B));
  const states = (shape: ModelShape): number =>
    sizesOf({ shape, workload: { promptTokens: 8, newTokens: 1 }, block: BLOCK }).rowStateBytes;
  expect(states(shapeOfStage({ ...half, shape: QWEN35_4B, layers: 8 }))).toBe(states(QWEN35_4B) / 4);
});

test('a latent row is key and value at once, and is counted once', () => {
  const shape = shapeOf({
    model_type: 'deepseek_v3',
    num_hidden_layers: 61,
    hidden_size: 7168,
    num_attention_heads: 128,
    kv_lora_rank: 512,
    q_lora_rank: 1536,
    qk_nope_head_dim: 128,
    qk_rope_head_dim: 64,
    v_head_dim: 128,
  });
  expect(shape.latent).toEqual({ rank: 512, queryRank: 1536, rotated: 64, plain: 128, value: 128 });
  const positions = 4096;
  expect(rowBytes(shape, positions)).toBe((positions * 61 * (512 + 64) * 16) / 8);
  // What is multiplied for a token: the published sizes of its matrices.
  const elements = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 128 * 512 * (128 + 128) + 128 * 128 * 7168;
  expect(Math.abs(attentionElements(shape) / elements - 1)).toBeLessThan(1e-3);
  expect(shapeSchema.parse(shape)).toEqual(shape);
});
