import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { RowError } from '../../src/errors/RowError.js';
import type { VectorType } from '../../src/Results.js';
import { embeddingAs, encodedEmbedding, wrongRanges } from '../../src/rows/embeddings.js';
import { float16Bits, ofFloat16Bits, roundedToFloat16 } from '../../src/rows/float16.js';

/** What numpy makes of two vectors: `astype(float16)`, and sentence-transformers' `quantize_embeddings` with ranges. */
const KNOWN = {
  vectors: [
    [
      0.369288057, -0.462427229, 0.0756516531, -0.102733381, -0.0819032863, -0.0390105881, -0.365500391, -0.0419663154,
      -0.156553417, 0.601270258, 0.0408542901, -0.0638057292, -0.0508967191, -0.120877668, -0.190921083, -0.070712328,
      0.0872041807, -0.0431643762, 0.173298806,
    ],
    [
      -0.0450447686, 0.00546924351, 0.34850049, 0.122892343, -0.113902248, -0.0412204787, 0.121859707, 0.436259568,
      -0.0607850626, -0.0549095459, 0.22596848, -0.199849635, -0.0657674223, 0.198965669, 0.130838111, 0.0206321552,
      0.151072949, -0.637600362, 0.230250448,
    ],
  ],
  min: [
    -0.0550447702, -0.472427219, 0.0656516552, -0.112733379, -0.123902246, -0.0512204766, -0.375500381, -0.051966317,
    -0.166553423, -0.0649095476, 0.0308542904, -0.209849641, -0.0757674202, -0.130877674, -0.200921088, -0.0807123259,
    0.0772041827, -0.647600353, 0.163298801,
  ],
  max: [
    0.389288068, 0.0254692435, 0.368500501, 0.142892346, -0.0619032867, -0.0190105885, 0.14185971, 0.456259578,
    -0.0407850631, 0.621270239, 0.245968476, -0.0438057296, -0.0308967195, 0.218965665, 0.150838107, 0.0406321548,
    0.171072945, -0.0231643766, 0.250250459,
  ],
  float16: [
    [
      13801, 46950, 11479, 44691, 44350, 43262, 46553, 43359, 45314, 14543, 10555, 44053, 43652, 44988, 45596, 44167,
      11669, 43398, 12684,
    ],
    [
      43460, 7578, 13715, 12253, 44874, 43335, 12237, 14075, 43976, 43783, 13115, 45669, 44086, 12894, 12336, 9544,
      12502, 47386, 13150,
    ],
  ],
  int8: [
    [115, -122, -119, -118, 44, -31, -123, -122, -107, 119, -116, 96, 13, -120, -120, -106, -100, 118, -98],
    [-122, 116, 110, 107, -86, -48, 117, 116, 86, -124, 103, -112, -71, 112, 112, 84, 72, -123, 68],
  ],
  uint8: [
    [243, 5, 8, 9, 172, 96, 4, 5, 20, 247, 11, 224, 141, 7, 7, 21, 27, 246, 29],
    [5, 244, 238, 235, 41, 79, 245, 244, 214, 3, 231, 15, 56, 240, 240, 212, 200, 4, 196],
  ],
  binary: [
    [32, -32, 32],
    [-13, -89, 32],
  ],
  ubinary: [
    [160, 96, 160],
    [115, 39, 160],
  ],
} as const;
const vectors = KNOWN.vectors.map((each) => Float32Array.from(each));
const ranges = { min: KNOWN.min, max: KNOWN.max };
const TYPES: readonly VectorType[] = ['float32', 'float16', 'int8', 'uint8', 'binary', 'ubinary'];

describe('as numpy and sentence-transformers have it', () => {
  test.each(['int8', 'uint8', 'binary', 'ubinary'] as const)('%s', (vectorType) => {
    const made = vectors.map(
      (vector) =>
        encodedEmbedding(vector, {
          normalize: false,
          vectorType,
          ...(vectorType.endsWith('int8') && { vectorRanges: ranges }),
        }).embedding,
    );
    expect(made).toEqual(KNOWN[vectorType]);
  });

  test('float16', () => {
    const made = vectors.map((vector) => {
      const { embedding } = encodedEmbedding(vector, { normalize: false, vectorType: 'float16' });
      return Array.from(embedding as readonly number[], float16Bits);
    });
    expect(made).toEqual(KNOWN.float16);
  });
});

test('every float16 is read back as itself, and others become the nearest', () => {
  for (let bits = 0; bits < 65536; bits++) {
    const value = ofFloat16Bits(bits);
    if (Number.isNaN(value)) continue;
    if (float16Bits(value) !== bits) expect([bits, float16Bits(value)]).toEqual([bits, bits]);
    if (!Object.is(roundedToFloat16(value), value)) expect(roundedToFloat16(value)).toBe(value);
  }
  fc.assert(
    fc.property(fc.float({ noNaN: true, min: -65504, max: 65504 }), (value) => {
      const rounded = roundedToFloat16(value);
      const bits = float16Bits(rounded);
      for (const other of [bits - 1, bits + 1]) {
        const next = ofFloat16Bits(other & 0xffff);
        if (Number.isFinite(next)) expect(Math.abs(value - rounded)).toBeLessThanOrEqual(Math.abs(value - next));
      }
    }),
  );
  expect(roundedToFloat16(65520)).toBe(Infinity);
  expect(roundedToFloat16(65519)).toBe(65504);
});

test('int8 with its own scale keeps the direction, and what it says stands for itself alone', () => {
  fc.assert(
    fc.property(fc.float32Array({ minLength: 8, maxLength: 64, noNaN: true, min: -100, max: 100 }), (values) => {
      const { embedding, scale = NaN, vectorType } = encodedEmbedding(values, { normalize: false, vectorType: 'int8' });
      expect(vectorType).toBe('int8');
      const largest = Math.max(...values.map(Math.abs));
      Array.from(embedding as readonly number[]).forEach((number, at) => {
        expect(Number.isInteger(number) && Math.abs(number) <= 127).toBe(true);
        expect(Math.abs(number * scale - (values[at] ?? NaN))).toBeLessThanOrEqual(largest / 250 + 1e-37);
      });
    }),
  );
});

test.each(TYPES)('%s: numbers and base64 say the same', (vectorType) => {
  for (const vector of vectors) {
    const settings = { vectorType, ...(vectorType.endsWith('int8') && { vectorRanges: ranges }) };
    const numbers = encodedEmbedding(vector, settings);
    const text = encodedEmbedding(vector, { ...settings, encoding: 'base64' });
    expect(typeof text.embedding).toBe('string');
    expect(embeddingAs(text, 'float')).toEqual(numbers.embedding);
    expect(embeddingAs(numbers, 'base64')).toBe(text.embedding);
    expect(embeddingAs(numbers, 'float')).toBe(numbers.embedding);
  }
});

test('what there is no room for is an error of the row', () => {
  const large = Float32Array.of(1e6, 1);
  expect(() => encodedEmbedding(large, { normalize: false, vectorType: 'float16' })).toThrow(RowError);
  expect(() => encodedEmbedding(large, { normalize: false, vectorType: 'int8', vectorRanges: ranges })).toThrow(
    'found those of 19 dimensions, expected those of 2',
  );
});

test.each([
  [null, 'expected { min, max }'],
  [{ min: [], max: [] }, 'expected { min, max }'],
  [{ min: [1], max: [1, 2] }, 'expected { min, max }'],
  [{ min: [1], max: [NaN] }, 'expected finite numbers'],
  [{ min: [2], max: [1] }, 'a least number above'],
])('ranges %j are wrong', (given, message) => {
  expect(wrongRanges(given)).toContain(message);
});
