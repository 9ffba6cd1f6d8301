import type { ChildProcess } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { Engine } from '../../src/index.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, TINY_MODEL, until, type CliResult } from './support.js';

const path = temporaryFolder();
let names = 0;
const ROWS = [{ tokens: [1, 9, 7] }, { tokens: [1, 60, 33, 8] }];

const ON_DISK = {
  weights: { gpu: 0, cpu: 0, disk: 1 },
  cache: { gpu: 0, cpu: 1, disk: 0 },
  activations: { gpu: 0, cpu: 1, disk: 0 },
  schedule: 'diagonal',
  batchSize: 4,
  batches: 1,
};

/** Arguments of a run whose weights stream from a store in a folder; without one they are in memory. */
function run(model: string, disk?: string): { args: string[]; output: string } {
  names += 1;
  const output = path(`out-${names}.jsonl`);
  const streams = disk === undefined ? [] : ['--disk', disk, '--policy', path('policy.json')];
  return {
    output,
    args: [
      'generate',
      '--model',
      model,
      '--input',
      path('rows.jsonl'),
      '--output',
      output,
      '--max-new-tokens',
      '12',
      '--ignore-eos',
      ...streams,
    ],
  };
}

async function tokensOf(model: string, disk?: string, cwd?: string): Promise<unknown[]> {
  const { args, output } = run(model, disk);
  expect(await runCli(args, '', {}, cwd)).toMatchObject({ code: 0 });
  return readResults(output).map(({ tokens }) => tokens);
}

const stores = (disk: string): string[] =>
  existsSync(disk) ? readdirSync(disk).filter((name) => name.endsWith('.weights')) : [];

/** Of the same length, with other weights. */
const other = path('other.gguf');
const time = new Date(1_700_000_000_000);
let expected: { readonly tiny: unknown[]; readonly other: unknown[] };

/** Without a store. */
async function tokensInMemory(model: string): Promise<unknown[]> {
  await using engine = await Engine.open({ model, policy: 'default' });
  const tokens: unknown[] = [];
  for await (const row of engine.generate(ROWS, { maxNewTokens: 12, ignoreEos: true })) tokens.push(row.tokens);
  return tokens;
}

beforeAll(async () => {
  writeFileSync(path('policy.json'), JSON.stringify(ON_DISK));
  writeLines(path('rows.jsonl'), ROWS);
  const bytes = readFileSync(TINY_MODEL);
  // Quantised values of the last matrices: finite whatever they are.
  for (let at = bytes.length - 34 * 300; at < bytes.length; at += 34) bytes.fill(0x15, at + 2, at + 34);
  writeFileSync(other, bytes);
  expected = { tiny: await tokensInMemory(TINY_MODEL), other: await tokensInMemory(other) };
  expect(expected.tiny).not.toEqual(expected.other);
});

describe('a repacked store belongs to what is in the model', () => {
  test('a file swapped behind the same size and time; the first one put back finds its own', async () => {
    const [model, disk] = [path('model.gguf'), path('swapped')];
    const put = (from: string): void => {
      copyFileSync(from, model);
      utimesSync(model, time, time);
    };
    put(TINY_MODEL);
    expect(await tokensOf(model, disk)).toEqual(expected.tiny);
    put(other);
    expect(await tokensOf(model, disk)).toEqual(expected.other);
    expect(stores(disk)).toHaveLength(2);
    put(TINY_MODEL);
    expect(await tokensOf(model, disk)).toEqual(expected.tiny);
    expect(stores(disk)).toHaveLength(2);
  });

  test('one name in two folders, and one model under two names, with one --disk', async () => {
    const disk = path('shared');
    for (const [name, from] of [
      ['a', TINY_MODEL],
      ['b', other],
    ] as const) {
      mkdirSync(path(name));
      copyFileSync(from, path(`${name}/m.gguf`));
      utimesSync(path(`${name}/m.gguf`), time, time);
    }
    expect(await tokensOf('m.gguf', disk, path('a'))).toEqual(expected.tiny);
    expect(await tokensOf('m.gguf', disk, path('b'))).toEqual(expected.other);
    expect(await tokensOf(other, disk)).toEqual(expected.other);
    expect(stores(disk)).toHaveLength(2);
  });

  test('a store that is overwritten between runs is found out, with exit 2, and made anew', async () => {
    const disk = path('overwritten');
    await tokensOf(TINY_MODEL, disk);
    const store = join(disk, stores(disk)[0] ?? '');
    const { size, atime, mtime } = statSync(store);
    const file = openSync(store, 'r+');
    writeSync(file, Buffer.alloc(64, 0x58), 0, 64, size - 8192);
    closeSync(file);
    utimesSync(store, atime, mtime);
    const { code, stderr } = await runCli(run(TINY_MODEL, disk).args);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /layer 1 at offset \d+: found checksum .*has been removed: run again, and it is made anew/,
      ) as unknown,
    });
    expect(await tokensOf(TINY_MODEL, disk)).toEqual(expected.tiny);
  });

  test('a job is not resumed on a model that was edited in the midst of many MiB, with size and time as before', async () => {
    const model = path('large.gguf');
    copyFileSync(TINY_MODEL, model);
    truncateSync(model, 80 * 2 ** 20);
    utimesSync(model, time, time);
    const { args, output } = run(model);
    expect(await runCli(args)).toMatchObject({ code: 0 });
    truncateSync(output, readFileSync(output).indexOf(0x0a) + 1);
    const file = openSync(model, 'r+');
    writeSync(file, 'x', 7_777_777);
    closeSync(file);
    utimesSync(model, time, time);
    const { code, stderr } = await runCli([...args, '--resume']);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining(
        'differs from the one that began it in the model (large.gguf) by its contents;',
      ) as unknown,
    });
    const back = openSync(model, 'r+');
    writeSync(back, '\0', 7_777_777);
    closeSync(back);
    expect(await runCli([...args, '--resume'])).toMatchObject({ code: 0 });
  });
});

describe('first runs of one model at once', () => {
  const large = path('sixty');
  beforeAll(() => makeZeros(large));

  /** A run that stands still in the midst of repacking. */
  async function stoppedRun(disk: string): Promise<{ child: ChildProcess; ended: Promise<CliResult>; output: string }> {
    for (;;) {
      const { args, output } = run(large, disk);
      const child = startCli(args);
      const ended = resultOf(child);
      // A file that is there is not locked yet; one that has a length is.
      await until(
        () =>
          existsSync(disk) &&
          readdirSync(disk).some((name) => (statSync(join(disk, name), { throwIfNoEntry: false })?.size ?? 0) > 0),
      );
      child.kill('SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (stores(disk).length === 0) return { child, ended, output };
      // It was faster: once more.
      child.kill('SIGKILL');
      await ended;
      rmSync(disk, { recursive: true });
    }
  }

  /** Another one, once it says that it waits. */
  async function waitingRun(
    disk: string,
    pid: number | undefined,
  ): Promise<{ child: ChildProcess; ended: Promise<CliResult>; output: string }> {
    const { args, output } = run(large, disk);
    const child = startCli(args);
    let said = '';
    child.stderr?.on('data', (text: Buffer) => (said += text.toString()));
    const ended = resultOf(child);
    await until(() => said.includes('waiting for') || child.exitCode !== null);
    expect(said).toContain(
      process.platform === 'linux'
        ? `waiting for process ${pid}, which is repacking this model into ${disk}`
        : 'waiting for another process',
    );
    return { child, ended, output };
  }

  test('four: the others wait, say for whom, and take the store that the first one finishes', async () => {
    const disk = path('four');
    const first = await stoppedRun(disk);
    const others = await Promise.all([1, 2, 3].map(() => waitingRun(disk, first.child.pid)));
    first.child.kill('SIGCONT');
    const runs = [first, ...others];
    for (const { ended, output } of runs) {
      expect(await ended).toMatchObject({ code: 0 });
      expect(readResults(output)).toEqual(readResults(first.output));
    }
    expect(readdirSync(disk)).toHaveLength(1);
  });

  test('two: where the first one is killed the second takes over; a signal ends the waiting', async () => {
    const disk = path('killed');
    const first = await stoppedRun(disk);
    const [second, third] = [await waitingRun(disk, first.child.pid), await waitingRun(disk, first.child.pid)];
    third.child.kill('SIGINT');
    expect(await third.ended).toMatchObject({ code: 130 });
    first.child.kill('SIGKILL');
    expect(await first.ended).toMatchObject({ code: 137 });
    expect(await second.ended).toMatchObject({ code: 0 });
    expect(readResults(second.output)).toHaveLength(2);
    expect(readdirSync(disk)).toEqual(stores(disk));
    expect(stores(disk)).toHaveLength(1);
  });
});

/** A folder of safetensors of some 60 MiB, all zeros, which take no room on disk. */
function makeZeros(folder: string): void {
  const [hidden, inner, layers, vocabulary] = [512, 2048, 7, 256];
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      hidden_size: hidden,
      intermediate_size: inner,
      num_hidden_layers: layers,
      vocab_size: vocabulary,
      hidden_act: 'silu',
      num_attention_heads: 8,
      num_key_value_heads: 8,
      max_position_embeddings: 128,
      rms_norm_eps: 1e-6,
      rope_theta: 10000,
      tie_word_embeddings: true,
      torch_dtype: 'float16',
    }),
  );
  const shapes: [string, number[]][] = [
    ['model.embed_tokens.weight', [vocabulary, hidden]],
    ['model.norm.weight', [hidden]],
  ];
  for (let layer = 0; layer < layers; layer += 1) {
    for (const name of ['q', 'k', 'v', 'o'])
      shapes.push([`model.layers.${layer}.self_attn.${name}_proj.weight`, [hidden, hidden]]);
    for (const [name, shape] of [
      ['gate', [inner, hidden]],
      ['up', [inner, hidden]],
      ['down', [hidden, inner]],
    ] as const)
      shapes.push([`model.layers.${layer}.mlp.${name}_proj.weight`, [...shape]]);
    for (const name of ['input', 'post_attention'])
      shapes.push([`model.layers.${layer}.${name}_layernorm.weight`, [hidden]]);
  }
  let offset = 0;
  const header = JSON.stringify(
    Object.fromEntries(
      shapes.map(([name, shape]) => {
        const bytes = 2 * shape.reduce((product, size) => product * size, 1);
        offset += bytes;
        return [name, { dtype: 'F16', shape, data_offsets: [offset - bytes, offset] }];
      }),
    ),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([length, Buffer.from(header)]));
  truncateSync(join(folder, 'model.safetensors'), 8 + header.length + offset);
}
