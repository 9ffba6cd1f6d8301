import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readModel } from '../../../src/model/readModel.js';
import { expectBounded, expectSound } from '../support/expectBounded.js';
import { makeFolder } from '../support/folders.js';
import { assemble, headerText, layOut, writeSafetensors } from '../support/SafetensorsWriter.js';
import type { SafetensorsEntry } from '../support/SafetensorsWriter.js';
import { TINY_LLAMA_CONFIG, TINY_LLAMA_SAFETENSORS } from '../support/tinyLlama.js';
import { tries } from '../../support/tries.js';

/** 5,500 broken files or folders, besides the truncations. */
const RUNS = {
  lengths: tries(100, 300),
  numbers: tries(500, 1500),
  bits: tries(400, 1200),
  entries: tries(300, 800),
  noise: tries(100, 300),
  json: tries(490, 1400),
};

const { entries: ENTRIES, dataBytes: DATA_BYTES } = layOut(TINY_LLAMA_SAFETENSORS);
const HEADER = headerText(ENTRIES);
const VALID = writeSafetensors(TINY_LLAMA_SAFETENSORS);
const JSON_FILES: Readonly<Record<string, string>> = {
  'config.json': JSON.stringify(TINY_LLAMA_CONFIG),
  'generation_config.json': JSON.stringify({ eos_token_id: [2], temperature: 0.5 }),
  'tokenizer.json': JSON.stringify({
    version: '1.0',
    added_tokens: [{ id: 2, content: '</s>', special: true }],
    model: { type: 'BPE', vocab: { a: 0, b: 1 }, merges: [['a', 'b']] },
  }),
  'tokenizer_config.json': JSON.stringify({ eos_token: '</s>', chat_template: '{{ messages }}' }),
};

const nastyNumber = fc.constantFrom(
  '0',
  '1',
  '-1',
  '2147483648',
  '4294967295',
  '4294967296',
  '9007199254740991',
  '9007199254740992',
  '18446744073709551615',
  '1e308',
  '1e999',
  '-0',
  '0.5',
  '00',
  'NaN',
  '',
);
const nastyJson = fc.oneof(
  nastyNumber,
  fc.constantFrom(
    'null',
    'true',
    '[]',
    '{}',
    '""',
    '"\\ud800"',
    '[[[[[[[[]]]]]]]]',
    '{"__proto__":{"x":1}}',
    `[${'0,'.repeat(999)}0]`,
    '"../../x"',
    '[null]',
    '[-1]',
    '1e-320',
  ),
  fc.json({ maxDepth: 2 }),
);

let folder: string;
let path: string;
beforeAll(async () => {
  folder = await makeFolder({ ...JSON_FILES, 'model.safetensors': VALID });
  path = join(folder, 'model.safetensors');
});

/** @returns whether the folder was refused */
async function readFolder(): Promise<boolean> {
  const outcome = await expectBounded(() => readModel(folder));
  if ('model' in outcome) expectSound(outcome.model);
  return 'error' in outcome;
}
async function readBroken(bytes: Uint8Array): Promise<boolean> {
  writeFileSync(path, bytes);
  return readFolder();
}

/** The places of a pattern in a text. */
const placesOf = (text: string, pattern: RegExp): { index: number; length: number }[] =>
  [...text.matchAll(pattern)].map((match) => ({ index: match.index, length: match[0].length }));
const NUMBERS = placesOf(HEADER, /(?<![\w."])\d+(?![\w."])/g);

describe('a hostile safetensors file is read or refused, soon and within memory', () => {
  test('cut after any of its bytes: always refused', async () => {
    const headerBytes = VALID.length - DATA_BYTES;
    // Every byte of the header; of the data, which is all alike, every 97th.
    for (let length = 0; length < VALID.length; length += length < headerBytes ? 1 : 97) {
      expect([length, await readBroken(VALID.subarray(0, length))]).toEqual([length, true]);
    }
    expect(await readBroken(Buffer.concat([VALID, Buffer.of(0)]))).toBe(true);
    expect(await readBroken(VALID)).toBe(false);
  });

  test('header lengths of all kinds: always refused', async () => {
    const right = VALID.readBigUInt64LE();
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
          fc.bigInt({ min: 0n, max: 8192n }),
          fc.constantFrom(2n ** 63n, 2n ** 53n, 100_000_000n),
        ),
        async (length) => {
          fc.pre(length !== right);
          const bytes = Buffer.from(VALID);
          bytes.writeBigUInt64LE(length);
          expect(await readBroken(bytes)).toBe(true);
        },
      ),
      { numRuns: RUNS.lengths },
    );
  });

  test('one number of the header replaced', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat({ max: NUMBERS.length - 1 }),
        fc.oneof(nastyNumber, fc.nat({ max: 2 * DATA_BYTES }).map(String)),
        async (which, number) => {
          const { index, length } = NUMBERS[which] ?? { index: 0, length: 0 };
          await readBroken(assemble(HEADER.slice(0, index) + number + HEADER.slice(index + length), DATA_BYTES));
        },
      ),
      { numRuns: RUNS.numbers },
    );
  });

  test('bits flipped in length and header', async () => {
    const bits = fc.array(fc.nat({ max: (VALID.length - DATA_BYTES) * 8 - 1 }), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(bits, async (flipped) => {
        const bytes = Buffer.from(VALID);
        for (const bit of flipped) bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        await readBroken(bytes);
      }),
      { numRuns: RUNS.bits },
    );
  });

  test('entries in another order, doubled, left out, of other types, shapes and places', async () => {
    const value = fc.record({
      dtype: fc.constantFrom('F32', 'F16', 'BF16', 'F64', 'I64', 'BOOL', 'F4', 'F8_E4M3', 'f32', ''),
      shape: fc.array(fc.constantFrom(0, 1, 2, 31, 32, 64, 2 ** 32, 2 ** 53 - 1), { maxLength: 9 }),
      data_offsets: fc.tuple(fc.nat({ max: DATA_BYTES }), fc.nat({ max: DATA_BYTES })),
    });
    const extra = fc.tuple(
      fc.constantFrom(...ENTRIES.map(([name]) => name), 'x', '', '__proto__', '__metadata__', 'constructor'),
      fc.oneof(value, fc.jsonValue({ maxDepth: 2 })),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(ENTRIES, { minLength: ENTRIES.length - 1 }),
        fc.array(extra, { maxLength: 2 }),
        async (kept, extras: SafetensorsEntry[]) => {
          await readBroken(assemble(headerText([...kept, ...extras]), DATA_BYTES));
        },
      ),
      { numRuns: RUNS.entries },
    );
  });

  test('noise, as a header and as a file', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.uint8Array({ maxLength: 2048, size: 'max' }),
          fc.json().map((text) => Buffer.from(text)),
        ),
        fc.boolean(),
        async (noise, framed) => {
          expect(await readBroken(framed ? assemble(Buffer.from(noise), DATA_BYTES) : noise)).toBe(true);
        },
      ),
      { numRuns: RUNS.noise },
    );
  });

  test('values, keys and text of the JSON files replaced', async () => {
    writeFileSync(path, VALID);
    for (const [name, text] of Object.entries(JSON_FILES)) {
      const values = placesOf(text, /"[^"]*"|-?\d[\d.e+-]*|true|false|null|\[[^[\]]*\]|\{[^{}]*\}/g);
      await fc.assert(
        fc.asyncProperty(
          fc.nat({ max: values.length - 1 }),
          nastyJson,
          fc.option(fc.nat({ max: text.length })),
          async (which, value, cut) => {
            const { index, length } = values[which] ?? { index: 0, length: 0 };
            writeFileSync(
              join(folder, name),
              (text.slice(0, index) + value + text.slice(index + length)).slice(0, cut ?? undefined),
            );
            await readFolder();
          },
        ),
        { numRuns: Math.ceil(RUNS.json / Object.keys(JSON_FILES).length) },
      );
      writeFileSync(join(folder, name), text);
    }
    expect(await readFolder()).toBe(false);
  });
});
