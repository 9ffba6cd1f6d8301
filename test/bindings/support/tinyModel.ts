import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RuntimeOptions } from '../../../src/bindings/Addon.js';
import type { DecoderSpec } from '../../../src/model/DecoderSpec.js';
import type { TensorBinding } from '../../../src/model/TensorBinding.js';

/** A two-layer decoder of the LLaMA kind with random weights, in a raw float32 file. */
export interface TinyModel {
  readonly decoder: DecoderSpec;
  readonly bindings: readonly TensorBinding[];
  readonly file: string;
  /** By `layer role`, e.g. `0 q.weight`; row-major. */
  readonly weights: ReadonlyMap<
    string,
    { readonly rows: number; readonly columns: number; readonly values: Float32Array }
  >;
  options(changes?: Partial<RuntimeOptions>): RuntimeOptions;
  remove(): void;
}

export const tinyDecoder: DecoderSpec = {
  family: 'llama',
  layers: 2,
  hiddenSize: 32,
  vocabularySize: 61,
  contextTokens: 64,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  feedForwardSize: 48,
  norm: { kind: 'rms', epsilon: 1e-5 },
  residual: 'pre',
  finalNorm: true,
  embedding: { size: 32, scale: 1 },
  attention: { scale: 8 ** -0.5, qkNorm: 'none' },
  position: {
    kind: 'rotary',
    style: 'halves',
    dims: 8,
    tables: [{ frequencies: Float32Array.from([0, 1, 2, 3], (i) => 10000 ** (-i / 4)), scale: 1 }],
  },
  feedForward: { kind: 'gated', activation: 'silu' },
  layerSpecs: [
    { window: 0, rotaryTable: 0 },
    { window: 0, rotaryTable: 0 },
  ],
};

/** Uniform in [-1, 1), from a seed (mulberry32). */
export function randomSource(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

export function makeTinyModel(seed = 1): TinyModel {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-tiny-'));
  const file = join(folder, 'weights.f32');
  const random = randomSource(seed);
  const weights = new Map<string, { rows: number; columns: number; values: Float32Array }>();
  const bindings: TensorBinding[] = [];
  const chunks: Uint8Array[] = [];
  let offset = 0;
  const add = (layer: number, role: TensorBinding['role'], rows: number, columns: number): void => {
    const kind = columns === 1 ? 'vector' : 'matrix';
    const values = Float32Array.from({ length: rows * columns }, () =>
      kind === 'vector' ? 1 + 0.2 * random() : (2.2 / Math.sqrt(columns)) * random(),
    );
    weights.set(`${layer} ${role}`, { rows, columns, values });
    bindings.push({ role, layer, kind, type: 'F32', rows, columns, segments: [{ file: 0, offset, rows }] });
    chunks.push(new Uint8Array(values.buffer));
    offset += values.byteLength;
  };
  const { hiddenSize, vocabularySize, heads, kvHeads, headDim, feedForwardSize } = tinyDecoder;
  add(-1, 'token_embedding', vocabularySize, hiddenSize);
  add(-1, 'head.weight', vocabularySize, hiddenSize);
  add(-1, 'final_norm.weight', hiddenSize, 1);
  for (let layer = 0; layer < tinyDecoder.layers; layer++) {
    add(layer, 'norm1.weight', hiddenSize, 1);
    add(layer, 'norm2.weight', hiddenSize, 1);
    add(layer, 'q.weight', heads * headDim, hiddenSize);
    add(layer, 'k.weight', kvHeads * headDim, hiddenSize);
    add(layer, 'v.weight', kvHeads * headDim, hiddenSize);
    add(layer, 'o.weight', hiddenSize, heads * headDim);
    add(layer, 'gate.weight', feedForwardSize, hiddenSize);
    add(layer, 'up.weight', feedForwardSize, hiddenSize);
    add(layer, 'down.weight', hiddenSize, feedForwardSize);
  }
  writeFileSync(file, Buffer.concat(chunks));
  return {
    decoder: tinyDecoder,
    bindings,
    file,
    weights,
    options: (changes) => ({
      decoder: tinyDecoder,
      bindings,
      files: [file],
      precision: 'float32',
      threads: 2,
      cache: { type: 'f32', pageTokens: 16, pages: 16 },
      limits: { tokensPerSquare: 64, rowsPerSquare: 4 },
      ...changes,
    }),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
