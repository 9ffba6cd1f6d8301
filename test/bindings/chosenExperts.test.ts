import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HEAD_MODES, type NativeRuntime } from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import type { ModelSource } from '../../src/model/ModelSource.js';
import { readModel } from '../../src/model/readModel.js';
import { StreamedPasses } from '../support/StreamedPasses.js';

const addon = loadAddon();
const [LAYERS, EXPERTS, PER_TOKEN, HIDDEN, INNER] = [3, 32, 2, 64, 64];
const PROMPT = [5, 9, 2, 14, 3];
const ROW = { temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0, logprobs: -1 };
/** Bytes of an expert, and what a disk reads at a time. */
const [EXPERT, PAGE] = [3 * HIDDEN * INNER * 4, 4096];

const CONFIG = {
  model_type: 'qwen3_moe',
  hidden_size: HIDDEN,
  intermediate_size: INNER,
  moe_intermediate_size: INNER,
  num_hidden_layers: LAYERS,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  num_experts: EXPERTS,
  num_experts_per_tok: PER_TOKEN,
  norm_topk_prob: true,
  decoder_sparse_step: 1,
  mlp_only_layers: [],
  vocab_size: 64,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
};

let folder = '';
let store = '';
let source: ModelSource;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-experts-'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(CONFIG));
  writeFileSync(join(folder, 'model.safetensors'), weights());
  source = await readModel(folder);
  store = join(folder, 'store');
  await repack();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function repack(): Promise<void> {
  const { decoder, bindings, files } = source;
  await addon.repack({ decoder, bindings, files, store, fingerprint: 'one', threads: 2 }, () => undefined);
}

/** Numbers in [-0.5, 0.5), norms of 1. */
function weights(): Buffer {
  const shapes: [name: string, ...shape: number[]][] = [
    ['model.embed_tokens.weight', 64, HIDDEN],
    ['model.norm.weight', HIDDEN],
  ];
  for (let layer = 0; layer < LAYERS; layer++) {
    const [of, attention] = [`model.layers.${layer}.`, `model.layers.${layer}.self_attn.`];
    shapes.push([`${of}input_layernorm.weight`, HIDDEN], [`${of}post_attention_layernorm.weight`, HIDDEN]);
    shapes.push([`${attention}q_norm.weight`, 16], [`${attention}k_norm.weight`, 16]);
    shapes.push([`${attention}q_proj.weight`, 64, HIDDEN], [`${attention}o_proj.weight`, HIDDEN, 64]);
    shapes.push([`${attention}k_proj.weight`, 32, HIDDEN], [`${attention}v_proj.weight`, 32, HIDDEN]);
    shapes.push([`${of}mlp.gate.weight`, EXPERTS, HIDDEN]);
    for (let expert = 0; expert < EXPERTS; expert++) {
      const block = `${of}mlp.experts.${expert}.`;
      shapes.push([`${block}gate_proj.weight`, INNER, HIDDEN], [`${block}up_proj.weight`, INNER, HIDDEN]);
      shapes.push([`${block}down_proj.weight`, HIDDEN, INNER]);
    }
  }
  let state = 54;
  let offset = 0;
  const header: Record<string, unknown> = {};
  const parts = shapes.map(([name, ...shape]) => {
    const count = shape.reduce((all, size) => all * size, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, (offset += 4 * count)] };
    const values = Float32Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return shape.length === 1 ? 1 : state / 2 ** 32 - 0.5;
    });
    return Buffer.from(values.buffer);
  });
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts]);
}

async function withPasses<T>(
  residentLayerBytes: number,
  chosen: boolean,
  use: (passes: StreamedPasses, runtime: NativeRuntime) => Promise<T>,
): Promise<T> {
  const { decoder, bindings, files } = source;
  const runtime = addon.openRuntime({
    decoder,
    bindings,
    files,
    precision: 'default',
    threads: 2,
    cache: { type: 'f16', pageTokens: 32, pages: 4 },
    limits: { tokensPerSquare: 64, rowsPerSquare: 1 },
    weights: { store, fingerprint: 'one', residentLayerBytes, buffers: 2 },
  });
  try {
    await runtime.load(() => undefined);
    return await use(new StreamedPasses(runtime, LAYERS, 64, 2, chosen), runtime);
  } finally {
    await runtime.close();
  }
}

/** Gives what one pass over so many tokens of a row reads. */
async function bytesRead(passes: StreamedPasses, runtime: NativeRuntime, tokens: readonly number[]): Promise<number> {
  const row = runtime.createRow({ ...ROW, tokens: Int32Array.from(tokens), capacityTokens: tokens.length + 1 });
  const before = runtime.moved.read;
  await passes.pass(passes.batch(row, 0, tokens.length, HEAD_MODES.sample));
  runtime.freeRow(row);
  return runtime.moved.read - before;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);

describe('experts that are read once they were chosen', () => {
  test.each([0, 40_000, 300_000, 1_000_000])(
    'make the same bits, with %d bytes of a layer resident',
    async (resident) => {
      const whole = await withPasses(resident, false, (passes) => passes.everything(PROMPT, 20));
      await expect(withPasses(resident, true, (passes) => passes.everything(PROMPT, 20))).resolves.toEqual(whole);
    },
  );

  test('are all that is read of the experts, once a layer was checked', async () => {
    await withPasses(0, true, async (passes, runtime) => {
      const { streamed, streamedExperts } = runtime.bytes;
      const rest = sum(streamed) - sum(streamedExperts);
      await expect(bytesRead(passes, runtime, PROMPT)).resolves.toBe(sum(streamed));
      for (const token of [7, 11, 40]) {
        const read = (await bytesRead(passes, runtime, [token])) - rest;
        expect(read).toBeGreaterThanOrEqual(LAYERS * PER_TOKEN * EXPERT);
        expect(read).toBeLessThanOrEqual(LAYERS * PER_TOKEN * (EXPERT + PAGE));
      }
      const read = (await bytesRead(passes, runtime, [1, 2, 3, 4])) - rest;
      expect(read).toBeGreaterThanOrEqual(LAYERS * PER_TOKEN * EXPERT);
      expect(read).toBeLessThanOrEqual(LAYERS * 4 * PER_TOKEN * (EXPERT + PAGE));
    });
  });

  test('of a store that was written to are looked at again, with the whole layer', async () => {
    await withPasses(0, true, async (passes, runtime) => {
      await bytesRead(passes, runtime, PROMPT);
      const file = openSync(store, 'r+');
      writeSync(file, Buffer.alloc(16, 0x5a), 0, 16, statSync(store).size - 8192);
      closeSync(file);
      await expect(bytesRead(passes, runtime, [7])).rejects.toThrow(/layer 2 at offset \d+: found checksum/);
    });
    rmSync(store);
    await repack();
  });
});
