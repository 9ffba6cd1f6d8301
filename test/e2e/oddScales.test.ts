import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { Engine, type RowResult } from '../../src/index.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { collect, model } from './support.js';

const folder = temporaryFolder();
/** A checkpoint of each kind, the tensors of which are scales there, and whether others are divided by them. */
const KINDS = [
  ['llama-nf4-plain', /\.absmax$/],
  ['llama-nf4', /\.nested_absmax$/],
  ['llama-nvfp4', /\.weight_global_scale$/, 'divides'],
  ['llama-nvfp4-modelopt', /\.weight_scale_2$/],
  ['llama-int8', /\.SCB$/],
  ['llama-gptq', /\.scales$/],
  ['llama-awq', /\.scales$/],
  ['llama-w4a16', /\.weight_scale$/],
  ['llama-w4a16-narrow', /\.weight_scale$/],
  ['llama-w8a8', /\.weight_scale$/],
  ['llama-float8', /\.weight_scale_inv$|\.weight_scale$/],
  ['deepseek-v3-float8', /\.weight_scale_inv$/],
] as const satisfies readonly (readonly [string, RegExp, 'divides'?])[];

type Header = Record<string, { dtype: string; data_offsets: [number, number] } | undefined>;

/** A copy of a checkpoint in which the first number of each tensor of such a name is another. @returns how many */
function withScales(name: string, tensors: RegExp, value: number, to: string): number {
  mkdirSync(to, { recursive: true });
  copyFileSync(join(model(name), 'config.json'), join(to, 'config.json'));
  const bytes = readFileSync(join(model(name), 'model.safetensors'));
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString()) as Header;
  const places = Object.entries(header).flatMap(([tensor, facts]) =>
    facts && tensors.test(tensor) ? [{ dtype: facts.dtype, at: 8 + length + facts.data_offsets[0] }] : [],
  );
  for (const { dtype, at } of places) {
    if (dtype === 'F32') bytes.writeFloatLE(value, at);
    else bytes.writeUInt16LE(halfOf(value, dtype), at);
  }
  writeFileSync(join(to, 'model.safetensors'), bytes);
  return places.length;
}

/** The upper half of a float where that is BF16; of half precision the three values that are wanted here. */
function halfOf(value: number, dtype: string): number {
  if (dtype === 'BF16') return new Uint16Array(Float32Array.of(value).buffer)[1] ?? 0;
  return value === 0 ? 0 : Number.isNaN(value) ? 0x7e00 : 0x7c00;
}

describe.each<readonly [string, RegExp, 'divides'?]>(KINDS)('%s', (name, tensors, divides) => {
  const [endless, nothing] = divides ? [0, Infinity] : [Infinity, 0];

  test.each([NaN, endless])('whose scales are %p is refused by name', async (value) => {
    const odd = folder(`${name}-${value}`);
    expect(withScales(name, tensors, value, odd)).toBeGreaterThan(0);
    const opened = Engine.open({ model: odd, threads: 1 });
    await expect(opened).rejects.toThrow(/found a scale of -?(nan|inf), expected a finite number/);
  });

  test(`whose scales are ${nothing} has zeros for weights`, async () => {
    const odd = folder(`${name}-zeros`);
    expect(withScales(name, tensors, nothing, odd)).toBeGreaterThan(0);
    await using engine = await Engine.open({ model: odd, threads: 1 });
    const [result]: RowResult[] = await collect(
      engine.generate([{ id: 0, tokens: [3, 4, 5], maxNewTokens: 3 }], { logprobs: 1 }),
    );
    expect(result?.error).toBeUndefined();
    expect(result?.logprobs?.every(({ logprob }) => Number.isFinite(logprob))).toBe(true);
  });
});
