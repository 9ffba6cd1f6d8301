import { describe, expect, test } from '@jest/globals';
import { openSync, readSync, closeSync } from 'node:fs';
import { createTokenizer } from '../../../src/model/createTokenizer.js';
import { ggufSource, reference, strings } from './fixtures.js';

const path = process.env.SPILLWAY_SMOLLM2;
// Skipped where the 90 MB file is not at hand: set SPILLWAY_SMOLLM2 to SmolLM2-135M-Instruct's Q4_1 GGUF file to run
// it.
const onlyWithFile = path === undefined ? describe.skip : describe;

/** The metadata of a GGUF file that is trusted: just enough to read the tokenizer's. */
function readMetadata(file: string): Record<string, unknown> {
  const descriptor = openSync(file, 'r');
  const bytes = Buffer.alloc(8 * 1024 * 1024);
  readSync(descriptor, bytes, 0, bytes.length, 0);
  closeSync(descriptor);
  let at = 24;
  const text = (): string => {
    const size = Number(bytes.readBigUInt64LE(at));
    at += 8 + size;
    return bytes.toString('utf8', at - size, at);
  };
  const number = (size: number, read: () => number | boolean): number | boolean => {
    const value = read();
    at += size;
    return value;
  };
  const value = (type: number): unknown => {
    switch (type) {
      case 4:
        return number(4, () => bytes.readUInt32LE(at));
      case 5:
        return number(4, () => bytes.readInt32LE(at));
      case 6:
        return number(4, () => bytes.readFloatLE(at));
      case 7:
        return number(1, () => bytes[at] === 1);
      case 8:
        return text();
      case 9: {
        const inner = bytes.readUInt32LE(at);
        const count = Number(bytes.readBigUInt64LE(at + 4));
        at += 12;
        return Array.from({ length: count }, () => value(inner));
      }
      default:
        throw new Error(`type ${type}`);
    }
  };
  const metadata: Record<string, unknown> = {};
  const count = Number(bytes.readBigUInt64LE(16));
  for (let i = 0; i < count; i++) {
    const key = text();
    at += 4;
    metadata[key] = value(bytes.readUInt32LE(at - 4));
  }
  return metadata;
}

onlyWithFile('SmolLM2-135M-Instruct (needs SPILLWAY_SMOLLM2)', () => {
  const tokenizer = createTokenizer(
    path === undefined ? { kind: 'none', reason: 'SPILLWAY_SMOLLM2 is not set' } : ggufSource(readMetadata(path)),
    49_152,
  );
  const expected = reference('smollm2-135m');

  test('ids equal the reference on every awkward string', () => {
    strings.forEach((text, i) => {
      expect({ text, ids: tokenizer.encode(text) }).toEqual({ text, ids: expected.bare[i] });
      expect({ text, ids: tokenizer.encode(text, { parseSpecial: false }) }).toEqual({
        text,
        ids: expected.data[String(i)] ?? expected.bare[i],
      });
    });
  });

  test('texts equal the reference', () => {
    for (const [ids, text, whole] of expected.texts)
      expect([tokenizer.decode(ids), tokenizer.decode(ids, { skipSpecial: false })]).toEqual([text, whole]);
  });

  test('nothing is added, the row ends at <|im_end|>, the template brings its own system message', () => {
    expect(tokenizer.beginToken).toBeUndefined();
    expect([...tokenizer.endTokens]).toEqual([2]);
    expect(tokenizer.renderChat([{ role: 'user', content: 'Hi' }])).toBe(
      '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    );
  });
});
