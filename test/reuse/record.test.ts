import { crc32 } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KeptAnswer } from '../../src/KeptAnswer.js';
import { HEADER, headerKind, headerOf } from '../../src/reuse/header.js';
import { answerBytes, answerOf } from '../../src/reuse/answer.js';
import {
  encodeRecord,
  HEAD_BYTES,
  isWhole,
  keyOf,
  MARKER,
  MOST_RECORD_BYTES,
  payloadOf,
  recordBytes,
} from '../../src/reuse/record.js';
import { RecordScanner, type Damage } from '../../src/reuse/RecordScanner.js';
import { answerFor, answersOf, keyFor } from './support/answers.js';
import { cpuSeconds } from '../model/support/expectBounded.js';

function recordFor(number: number, textBytes = 0): Buffer {
  const record = encodeRecord(keyFor(number), answerBytes(answerFor(number, textBytes)) ?? Buffer.alloc(0));
  if (record === undefined) throw new Error('too long');
  return record;
}

/** What a scan finds in a file, read in pieces of so many bytes. */
function scanned(
  file: Buffer,
  pieceBytes: number,
  from = 0,
): {
  readonly offsets: readonly number[];
  readonly keys: readonly string[];
  readonly damage: Damage | undefined;
  readonly resumeAt: number;
} {
  const [offsets, keys]: [number[], string[]] = [[], []];
  const scanner = new RecordScanner(from, file.length, (key, offset) => {
    keys.push(key.toString('hex'));
    offsets.push(offset);
  });
  for (let pieces = 0; scanner.position < file.length; pieces += 1) {
    if (pieces > 2 * file.length) throw new Error('no progress');
    scanner.take(file.subarray(scanner.position, scanner.position + Math.max(pieceBytes, scanner.neededBytes)));
  }
  return { offsets, keys, damage: scanner.damage, resumeAt: scanner.resumeAt };
}

describe('an answer', () => {
  test('comes back as it was', () => {
    const answer = {
      text: 'a "b"\n\ud800 \u{1f600}',
      tokens: [0, 7, 2 ** 32],
      finishReason: 'stop' as const,
      logprobs: [
        {
          token: 7,
          logprob: -0.25,
          top: [
            { token: 7, logprob: -0.25 },
            { token: 8, logprob: -Infinity },
          ],
        },
        { token: 9, logprob: -0, top: [] },
      ],
    };
    expect(answerOf(answerBytes(answer) ?? Buffer.alloc(0))).toEqual(answer);
    expect(answerBytes(answer)?.toString()).toBe(
      '{"text":"a \\"b\\"\\n\\ud800 😀","tokens":[0,7,4294967296],"finishReason":"stop","logprobs":[[7,-0.25,[7,-0.25,8,null]],[9,"-0",[]]]}',
    );
  });

  test.each(Object.entries(answersOf))('of %s comes back as it was, to the bit, whatever it is', (_task, arbitrary) => {
    // toEqual tells -0 from 0.
    fc.assert(
      fc.property<[KeptAnswer]>(arbitrary, (answer) =>
        expect(answerOf(answerBytes(answer) ?? Buffer.alloc(0))).toEqual(answer),
      ),
      { numRuns: 200 },
    );
  });

  test.each<[KeptAnswer, string]>([
    [
      { label: 'b', probability: 0.75, probabilities: { a: 0.25, b: 0.75 } },
      '{"label":"b","probability":0.75,"probabilities":["a",0.25,"b",0.75]}',
    ],
    [
      {
        scores: [
          { logprob: -1.5, tokens: 2 },
          { logprob: -0, tokens: 1, tokenLogprobs: [{ token: 7, logprob: -Infinity }] },
        ],
      },
      '{"scores":[[-1.5,2],["-0",1,[7,null]]]}',
    ],
    [{ embedding: 'AACAPw==' }, '{"embedding":"AACAPw=="}'],
    // 9 digits of 0.1 in float32; and what is none of float32's.
    [{ embedding: [0.100000001, -2] }, '{"embedding":{"float32":"zczMPQAAAMA="}}'],
    [{ embedding: [0.1, -0] }, '{"embedding":[0.1,"-0"]}'],
  ])('of other tasks takes little: %j', (answer, text) => {
    expect(answerBytes(answer)?.toString()).toBe(text);
    expect(answerOf(Buffer.from(text))).toEqual(answer);
  });

  test.each([
    '',
    '{',
    'null',
    '[]',
    '7',
    '{}',
    '{"text":"a","tokens":[1]}',
    '{"text":"a","tokens":[1],"finishReason":"error"}',
    '{"text":1,"tokens":[1],"finishReason":"stop"}',
    '{"text":"a","tokens":[-1],"finishReason":"stop"}',
    '{"text":"a","tokens":[1.5],"finishReason":"stop"}',
    '{"text":"a","tokens":{"length":0},"finishReason":"stop"}',
    '{"text":"a","tokens":[],"finishReason":"stop","logprobs":null}',
    '{"text":"a","tokens":[],"finishReason":"stop","logprobs":[[1,-1]]}',
    '{"text":"a","tokens":[],"finishReason":"stop","logprobs":[[1,"-1",[]]]}',
    '{"text":"a","tokens":[],"finishReason":"stop","logprobs":[[1,-1,[1]]]}',
    '{"text":"a","tokens":[],"finishReason":"stop","logprobs":[[1,-1,[1,1e999]]]}',
    '{"text":"a","reasoning":7,"tokens":[],"finishReason":"stop"}',
    '{"label":"a","probability":1}',
    '{"label":7,"probability":1,"probabilities":[]}',
    '{"label":"a","probability":"1","probabilities":[]}',
    '{"label":"a","probability":1,"probabilities":["a"]}',
    '{"label":"a","probability":1,"probabilities":[1,1]}',
    '{"label":"a","probability":1,"probabilities":{"a":1}}',
    '{"scores":{}}',
    '{"scores":[[-1]]}',
    '{"scores":[[-1,1.5]]}',
    '{"scores":[[-1,1,[1]]]}',
    '{"scores":[[-1,1,[],2]]}',
    '{"scores":["-1"]}',
    '{"embedding":7}',
    '{"embedding":["a"]}',
    '{"embedding":[1e999]}',
    '{"embedding":{}}',
    '{"embedding":{"float32":"AAA="}}',
    '{"embedding":{"float32":"no base64"}}',
    '{"embedding":{"float32":"AADAfw=="}}',
  ])('is not %s', (text) => expect(answerOf(Buffer.from(text))).toBeUndefined());

  test('with more brackets than heap is neither read nor written', () => {
    expect(answerOf(Buffer.alloc(2 ** 20 + 1, '['))).toBeUndefined();
    expect(answerBytes({ ...answerFor(1), text: '{'.repeat(2 ** 20 + 1) })).toBeUndefined();
    expect(answerBytes({ ...answerFor(1), text: 'x'.repeat(2 ** 20 + 1) })).toBeDefined();
  });
});

describe('a header', () => {
  test('is ours, empty, of another version, damaged or foreign', () => {
    expect(headerKind(HEADER)).toEqual({ kind: 'ours' });
    expect(headerKind(Buffer.alloc(0))).toEqual({ kind: 'empty' });
    for (const version of [0, 2, 2 ** 32 - 1])
      expect(headerKind(headerOf(version))).toEqual({
        kind: 'otherVersion',
        found: `version ${version}`,
        expected: 'version 1',
      });
    expect(headerKind(HEADER.subarray(0, 20))).toMatchObject({ kind: 'unusable', found: 'a part of a header' });
    const damaged = Buffer.from(HEADER);
    damaged[20] = 99;
    expect(headerKind(damaged)).toMatchObject({ kind: 'unusable', found: 'a damaged header' });
    expect(headerKind(Buffer.from('{"prompt":"my own words"}'))).toEqual({
      kind: 'foreign',
      found: 'a file that begins with "{\\"prompt\\":\\"my own words\\"}"',
    });
    expect(headerKind(Buffer.from('S'))).toMatchObject({ kind: 'foreign' });
  });
});

describe('a record', () => {
  test('has key and payload, and tells when it was changed', () => {
    const record = recordFor(1);
    expect(recordBytes(record)).toBe(record.length);
    expect(isWhole(record)).toBe(true);
    expect(keyOf(record).equals(keyFor(1))).toBe(true);
    expect(answerOf(payloadOf(record))).toEqual(answerFor(1));
    for (let at = 0; at < record.length; at += 1) {
      const changed = Buffer.from(record);
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      expect(recordBytes(changed) === record.length && isWhole(changed)).toBe(false);
    }
  });

  test('is no longer than it may be', () => {
    expect(encodeRecord(keyFor(1), Buffer.alloc(MOST_RECORD_BYTES - HEAD_BYTES + 1))).toBeUndefined();
    const head = recordFor(1);
    head.writeUInt32LE(0xffffffff, MARKER.length);
    expect(recordBytes(head)).toBeUndefined();
  });
});

describe('a scan', () => {
  const records = [recordFor(0), recordFor(1, 300), recordFor(2), recordFor(3, 50)];
  const starts = records.map((_, at) => Buffer.concat(records.slice(0, at)).length);
  const file = Buffer.concat(records);

  test('finds all records, in pieces of any size', () => {
    for (const pieceBytes of [1, 64, 65, 200, 10_000])
      expect(scanned(file, pieceBytes)).toMatchObject({ offsets: starts, damage: undefined, resumeAt: file.length });
  });

  test('goes on behind a torn record with what another process appended', () => {
    const torn = Buffer.concat([recordFor(0), recordFor(1, 300).subarray(0, 130), recordFor(2), recordFor(3)]);
    const start = recordFor(0).length;
    expect(scanned(torn, 64)).toMatchObject({
      offsets: [0, start + 130, start + 130 + recordFor(2).length],
      damage: { bytes: 130, offset: start },
    });
  });

  test('what is not whole yet at the end is no damage, and is found when it is', () => {
    for (let end = (starts[3] ?? 0) + 1; end < file.length; end += 1) {
      const before = scanned(file.subarray(0, end), 64);
      expect(before).toMatchObject({ offsets: starts.slice(0, 3), damage: undefined, resumeAt: starts[3] });
      expect(scanned(file, 64, before.resumeAt)).toMatchObject({ offsets: starts.slice(3), damage: undefined });
    }
  });

  test('of any bytes between, before and behind finds the records, and knows what is damaged', () => {
    const rubbish = fc.oneof(
      fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
      fc.nat(7).map((bytes) => MARKER.subarray(0, bytes)),
      fc.nat(300).map((bytes) => recordFor(9, 300).subarray(0, bytes)),
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(rubbish, fc.nat(3)), { maxLength: 6 }),
        fc.integer({ min: 1, max: 600 }),
        (parts, pieceBytes) => {
          const whole = Buffer.concat(parts.flatMap(([bytes, number]) => [bytes, recordFor(number)]));
          const { keys, damage } = scanned(whole, pieceBytes);
          expect(keys).toEqual(parts.map(([, number]) => keyFor(number).toString('hex')));
          expect(damage?.bytes ?? 0).toBe(parts.reduce((sum, [bytes]) => sum + bytes.length, 0));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('ends soon where records lie inside of records that fail', () => {
    // Each head says that its record goes to the end of the file: looked at in full, all of them would take 32 GiB.
    const hostile = Buffer.alloc(2 ** 21, recordFor(1).subarray(0, HEAD_BYTES));
    for (let at = 0; at < hostile.length; at += HEAD_BYTES) {
      hostile.writeUInt32LE(hostile.length - at - HEAD_BYTES, at + 8);
      hostile.writeUInt32LE(crc32(keyFor(1), hostile.length - at - HEAD_BYTES), at + 12);
    }
    expect(recordBytes(hostile)).toBe(hostile.length);
    const start = process.cpuUsage();
    expect(scanned(hostile, 2 ** 20)).toMatchObject({ offsets: [], damage: { bytes: hostile.length, offset: 0 } });
    expect(cpuSeconds(start)).toBeLessThan(5);
  });
});
