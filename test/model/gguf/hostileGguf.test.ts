import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readModel } from '../../../src/model/readModel.js';
import { expectBounded, expectSound } from '../support/expectBounded.js';
import { makeFolder } from '../support/folders.js';
import { array, string, writeGguf } from '../support/GgufWriter.js';
import type { GgufField, GgufTensorInput } from '../support/GgufWriter.js';
import { TINY_LLAMA_GGUF, tinyLlamaSplit } from '../support/tinyLlama.js';
import { tries } from '../../support/tries.js';

/** 5,500 broken files, besides the truncations; hostileSafetensors.test.ts has as many again. */
const RUNS = {
  fields: tries(700, 2000),
  bits: tries(500, 1500),
  spans: tries(300, 900),
  tensors: tries(200, 500),
  noise: tries(100, 300),
  split: tries(100, 300),
};
const VALID = writeGguf(TINY_LLAMA_GGUF);
/** The last field is the offset of the last tensor. */
const HEADER_BYTES = (VALID.fields.at(-1)?.offset ?? 0) + 8;

/** Numbers at which readers break: signs, 32 and 53 and 64 bits, and products that wrap round. */
const nastyNumber = fc.oneof(
  fc.constantFrom(
    0n,
    1n,
    2n,
    31n,
    33n,
    2n ** 16n,
    2n ** 28n,
    2n ** 31n - 1n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 40n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 61n,
    2n ** 63n - 1n,
    2n ** 63n,
    2n ** 64n - 1n,
  ),
  fc.bigInt({ min: 0n, max: BigInt(VALID.bytes.length) + 64n }),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

function setField(bytes: Buffer, field: GgufField, value: bigint): void {
  if (field.bytes === 8) bytes.writeBigUInt64LE(value, field.offset);
  else bytes.writeUInt32LE(Number(value & 0xffff_ffffn), field.offset);
}

let path: string;
beforeAll(async () => {
  path = join(await makeFolder(), 'tiny.gguf');
});

/** @returns whether the file was refused */
async function readBroken(bytes: Uint8Array): Promise<boolean> {
  writeFileSync(path, bytes);
  const outcome = await expectBounded(() => readModel(path));
  if ('model' in outcome) expectSound(outcome.model);
  return 'error' in outcome;
}

describe('a hostile GGUF file is read or refused, soon and within memory', () => {
  test('cut after any of its bytes: always refused', async () => {
    // Every byte of the header; of the data, which is all alike, every 97th.
    for (let length = 0; length < VALID.bytes.length; length += length < HEADER_BYTES ? 1 : 97) {
      expect([length, await readBroken(VALID.bytes.subarray(0, length))]).toEqual([length, true]);
    }
    expect(await readBroken(VALID.bytes)).toBe(false);
  });

  test('every length, count, type and offset at its largest: always refused', async () => {
    for (const field of VALID.fields) {
      const bytes = Buffer.from(VALID.bytes);
      setField(bytes, field, 2n ** 64n - 1n);
      expect([field.what, await readBroken(bytes)]).toEqual([field.what, true]);
    }
  });

  test('lengths, counts, types and offsets replaced', async () => {
    const replacement = fc.tuple(fc.nat({ max: VALID.fields.length - 1 }), nastyNumber);
    await fc.assert(
      fc.asyncProperty(fc.array(replacement, { minLength: 1, maxLength: 3 }), async (replacements) => {
        const bytes = Buffer.from(VALID.bytes);
        for (const [index, value] of replacements) {
          const field = VALID.fields[index];
          if (field) setField(bytes, field, value);
        }
        await readBroken(bytes);
      }),
      { numRuns: RUNS.fields },
    );
  });

  test('bits flipped in the header', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: HEADER_BYTES * 8 - 1 }), { minLength: 1, maxLength: 8 }),
        async (bits) => {
          const bytes = Buffer.from(VALID.bytes);
          for (const bit of bits) bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
          await readBroken(bytes);
        },
      ),
      { numRuns: RUNS.bits },
    );
  });

  test('spans removed, doubled, moved, or replaced by noise', async () => {
    const position = fc.nat({ max: VALID.bytes.length });
    await fc.assert(
      fc.asyncProperty(
        position,
        fc.nat({ max: 200 }),
        position,
        fc.oneof(fc.constantFrom('remove', 'copy', 'move'), fc.uint8Array({ maxLength: 64 })),
        async (from, length, to, how) => {
          const span = VALID.bytes.subarray(from, from + length);
          const without = Buffer.concat([VALID.bytes.subarray(0, from), VALID.bytes.subarray(from + length)]);
          const base = how === 'copy' ? VALID.bytes : without;
          const inserted = how === 'remove' ? new Uint8Array(0) : typeof how === 'string' ? span : how;
          const at = typeof how === 'string' ? Math.min(to, base.length) : from;
          await readBroken(Buffer.concat([base.subarray(0, at), inserted, base.subarray(at)]));
        },
      ),
      { numRuns: RUNS.spans },
    );
  });

  test('tensors in another order, doubled, left out, of other types, shapes and places', async () => {
    const change = fc.record({
      index: fc.nat({ max: TINY_LLAMA_GGUF.tensors.length - 1 }),
      type: fc.option(fc.nat({ max: 45 })),
      shape: fc.option(fc.array(fc.constantFrom(1, 2, 31, 32, 64, 256), { maxLength: 4 })),
      offset: fc.option(fc.nat({ max: 8192 })),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray([...TINY_LLAMA_GGUF.tensors], { minLength: 9 }),
        fc.array(change, { maxLength: 2 }),
        async (tensors, changes) => {
          const changed: GgufTensorInput[] = [...tensors];
          for (const { index, type, shape, offset } of changes) {
            const tensor = TINY_LLAMA_GGUF.tensors[index];
            if (!tensor) continue;
            changed.push({
              ...tensor,
              ...(type === null ? {} : { type }),
              ...(shape === null ? {} : { shape }),
              ...(offset === null ? {} : { offset }),
            });
            if (index % 2 === 0)
              changed.splice(
                changed.findIndex(({ name }) => name === tensor.name),
                1,
              );
          }
          await readBroken(writeGguf({ ...TINY_LLAMA_GGUF, tensors: changed }).bytes);
        },
      ),
      { numRuns: RUNS.tensors },
    );
  });

  test('noise behind a good beginning', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(0, 4, 8, 24, 40),
        fc.uint8Array({ maxLength: 4096, size: 'max' }),
        async (kept, noise) => {
          await readBroken(Buffer.concat([VALID.bytes.subarray(0, kept), noise]));
        },
      ),
      { numRuns: RUNS.noise },
    );
  });

  test('split models with fields replaced', async () => {
    const written = tinyLlamaSplit(2).map((input) => writeGguf(input));
    const folder = await makeFolder();
    const names = written.map((_, index) => join(folder, `t-0000${index + 1}-of-00002.gguf`));
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 1 }), fc.nat(), nastyNumber, async (shard, field, value) => {
        for (const [index, { bytes, fields }] of written.entries()) {
          const copy = Buffer.from(bytes);
          const chosen = fields[field % fields.length];
          if (index === shard && chosen) setField(copy, chosen, value);
          writeFileSync(names[index] ?? '', copy);
        }
        const outcome = await expectBounded(() => readModel(names[0] ?? ''));
        if ('model' in outcome) expectSound(outcome.model);
      }),
      { numRuns: RUNS.split },
    );
  });

  test('millions of tiny values: memory stays in proportion to the file', async () => {
    const nested = { type: 'arrays', values: Array.from({ length: 200_000 }, () => array('uint8', [])) } as const;
    writeFileSync(
      path,
      writeGguf({
        metadata: [
          ['general.architecture', string('llama')],
          ['nested', nested],
        ],
        tensors: [],
      }).bytes,
    );
    await expect(readModel(path)).rejects.toThrow(/header: found values that take more than .* of memory/);
  });
});
