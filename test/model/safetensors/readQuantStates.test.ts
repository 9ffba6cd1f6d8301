import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { readQuantStates, type QuantState } from '../../../src/model/safetensors/readQuantStates.js';

const STATE = { quant_type: 'nf4', blocksize: 64, dtype: 'bfloat16', shape: [16, 64] };
const NESTED = { nested_blocksize: 256, nested_dtype: 'float32', nested_offset: 0.25 };

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-states-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(content: unknown): Promise<ReadonlyMap<string, QuantState>> {
  const path = join(folder, 'model.safetensors');
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(path, `before${text}`);
  const tensor = { shape: [text.length], file: 0, offset: 6, bytes: text.length };
  return readQuantStates([path], [{ name: 'm.weight.quant_state.bitsandbytes__nf4', ...tensor }]);
}

describe('what bitsandbytes says of a matrix', () => {
  test('is read by the name of the matrix', async () => {
    const expected = { shape: [16, 64], group: 64, type: 'BF16' };
    await expect(read(STATE)).resolves.toEqual(new Map([['m.weight', expected]]));
    await expect(read({ ...STATE, ...NESTED })).resolves.toEqual(
      new Map([['m.weight', { ...expected, nested: { group: 256, offset: 0.25 } }]]),
    );
  });
  test.each([
    ['no JSON', '{"a', 'bytes that are no JSON'],
    ['a list', [1], 'expected a JSON object'],
    ['much', { ...STATE, more: 'x'.repeat(5000) }, 'at most 4096 of JSON'],
    ['no block', { ...STATE, blocksize: 0 }, 'blocksize: found 0'],
    ['half a block', { ...STATE, blocksize: 0.5 }, 'blocksize: found 0.5'],
    ['a type', { ...STATE, dtype: 'int8' }, 'dtype: found "int8", expected float32, float16 or bfloat16'],
    ['no type', { ...STATE, dtype: ['toString'] }, 'dtype'],
    ['a vector', { ...STATE, shape: [16] }, 'shape'],
    ['a half row', { ...STATE, shape: [16.5, 64] }, 'shape'],
    ['no rows', { ...STATE, shape: [0, 64] }, 'shape'],
    ['no nested block', { ...STATE, ...NESTED, nested_blocksize: 0 }, 'nested_blocksize: found 0'],
    ['no offset', { ...STATE, ...NESTED, nested_offset: null }, 'nested_offset: found null'],
  ])('refuses %s', async (_, content, words) => {
    const reading = read(content);
    await expect(reading).rejects.toThrow(ModelFileError);
    await expect(reading).rejects.toThrow(words);
  });
});
