import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet';
import { type AnswerStore, Engine, type EmbedOptions, type VectorType } from '../../src/index.js';
import { runJob } from '../../src/jobs/runJob.js';
import { ReuseFile } from '../../src/reuse/ReuseFile.js';
import { embeddingAs } from '../../src/rows/embeddings.js';
import { roundedToFloat16 } from '../../src/rows/float16.js';
import { encoderNamed } from '../support/model/fixtureEncoders.js';

const { path: model } = encoderNamed('bert');
const ROWS = Array.from({ length: 6 }, (_, i) => ({ id: i, tokens: [5 + i, 9, 17 + 2 * i] }));
const TYPES: readonly VectorType[] = ['float16', 'int8', 'binary', 'ubinary'];

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'spillway-vectors-'));
  await writeFile(join(folder, 'rows.jsonl'), ROWS.map((row) => JSON.stringify(row)).join('\n'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function job(name: string, embed: EmbedOptions): Promise<Buffer> {
  await using engine = await Engine.open({ model });
  await runJob({ engine, input: join(folder, 'rows.jsonl'), output: join(folder, name), embed });
  return await readFile(join(folder, name));
}

async function parquetOf(bytes: Buffer): Promise<{ type: string; rows: Record<string, unknown>[] }> {
  const file = new Uint8Array(bytes).buffer;
  const leaf = parquetSchema(parquetMetadata(file)).children.find(({ element }) => element.name === 'embedding');
  const { type, logical_type: logical, converted_type: converted } = leaf?.children[0]?.children[0]?.element ?? {};
  return {
    type: [type, logical?.type, converted].filter((each) => each !== undefined).join(' '),
    rows: await parquetReadObjects({ file }),
  };
}

interface Line {
  readonly embedding: readonly number[] | string;
  readonly vectorType: VectorType;
  readonly scale?: number;
}

describe.each(TYPES)('%s', (vectorType) => {
  test('lines, base64 and Parquet say the same', async () => {
    const lines = (await job('a.jsonl', { vectorType }))
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    const texts = (await job('b.jsonl', { vectorType, encoding: 'base64' }))
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    expect(lines).toHaveLength(ROWS.length);
    expect(texts.map((line) => embeddingAs(line, 'float'))).toEqual(lines.map(({ embedding }) => embedding));
    expect(lines.every((line) => line.vectorType === vectorType)).toBe(true);
    const { rows, type } = await parquetOf(await job('c.parquet', { vectorType }));
    expect(type).toBe(
      {
        float16: 'FIXED_LEN_BYTE_ARRAY FLOAT16',
        int8: 'INT32 INTEGER INT_8',
        binary: 'INT32 INTEGER INT_8',
        ubinary: 'INT32 INTEGER UINT_8',
      }[vectorType as 'float16'],
    );
    expect(rows.map(({ embedding }) => Array.from(embedding as Iterable<number>))).toEqual(
      lines.map(({ embedding }) => embedding),
    );
    expect(rows.map((row) => row['embedding_scale'])).toEqual(lines.map(({ scale }) => scale));
  });
});

test('they are what float32 becomes', async () => {
  await using engine = await Engine.open({ model });
  const of = async (options: EmbedOptions): Promise<readonly (readonly number[])[]> => {
    const all: (readonly number[])[] = [];
    for await (const { embedding, error } of engine.embed(ROWS, options)) {
      if (error || typeof embedding !== 'object') throw new Error(error?.message);
      all.push(embedding);
    }
    return all;
  };
  const whole = await of({});
  expect(await of({ vectorType: 'float16' })).toEqual(whole.map((row) => row.map(roundedToFloat16)));
  const bits = await of({ vectorType: 'ubinary' });
  expect(bits).toEqual(
    whole.map((row) =>
      Array.from({ length: row.length / 8 }, (_, byte) =>
        parseInt(
          row
            .slice(8 * byte, 8 * byte + 8)
            .map((value) => (value > 0 ? '1' : '0'))
            .join(''),
          2,
        ),
      ),
    ),
  );
});

test('a job goes on with its own type alone, and kept answers are of one', async () => {
  await job('d.jsonl', { vectorType: 'int8' });
  await using engine = await Engine.open({ model });
  const input = join(folder, 'rows.jsonl');
  await using kept = await ReuseFile.open(join(folder, 'kept'));
  await expect(
    runJob({ engine, input, output: join(folder, 'd.jsonl'), resume: true, embed: { vectorType: 'binary' } }),
  ).rejects.toThrow('vectorType');
  const made = [];
  for (const vectorType of ['int8', 'int8', 'binary'] as const) {
    let reused = 0;
    const reuse: AnswerStore = {
      get: async (key) => {
        const found = await kept.get(key);
        reused += Number(found !== undefined);
        return found;
      },
      put: (key, answer) => kept.put(key, answer),
    };
    const output = join(folder, `e${made.length}.jsonl`);
    await runJob({ engine, input, output, embed: { vectorType, reuse } });
    made.push({ reused, lines: await readFile(output, 'utf8') });
  }
  expect(made.map(({ reused }) => reused)).toEqual([0, ROWS.length, 0]);
  expect(made[1]?.lines).toBe(made[0]?.lines);
});

test.each([
  [{ vectorType: 'uint8' }, 'vectorType: found uint8 without vectorRanges'],
  [{ vectorRanges: { min: [0], max: [1] } }, 'vectorRanges: found some for float32'],
  [{ vectorType: 'int8', vectorRanges: { min: [0], max: [1] } }, 'found those of 1 dimensions, expected those of 64'],
] satisfies [EmbedOptions, string][])('%j is refused', async (options, message) => {
  await using engine = await Engine.open({ model });
  expect(() => engine.embed(ROWS, options)).toThrow(message);
});
