import { copyFileSync, readFileSync, truncateSync, utimesSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { Engine, type EngineOptions } from '../../src/index.js';
import { runJob, type JobSummary } from '../../src/api/jobs.js';
import { identifyModel } from '../../src/api/models.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { model } from './support.js';

const path = temporaryFolder();
const { instructionSets } = loadAddon().machine();
const BASE: EngineOptions = { model: model('llama-F16.gguf'), policy: 'default', instructionSet: 'scalar' };

async function job(options: Partial<EngineOptions>, resume = true): Promise<JobSummary> {
  await using engine = await Engine.open({ ...BASE, ...options });
  return await runJob({
    engine,
    input: path('in.jsonl'),
    output: path('out.jsonl'),
    generate: { maxNewTokens: 2 },
    resume,
    overwrite: !resume,
  });
}

const others: [string, Partial<EngineOptions>][] = [
  ['precision (was "default", is "float32")', { precision: 'float32' }],
  ['compressWeights (was "none", is "8bit")', { compressWeights: '8bit' }],
  ['compressCache (was "none", is "4bit")', { compressCache: '4bit' }],
  ['sparseAttention (was 1, is 0.5)', { sparseAttention: 0.5 }],
  ['the model (was llama-F16.gguf, is llama-F32.gguf)', { model: model('llama-F32.gguf') }],
  ...(instructionSets.includes('amx')
    ? [['instructions (was "others", is "amx")', { instructionSet: 'amx' }] as [string, Partial<EngineOptions>]]
    : []),
];

describe('a job of an engine', () => {
  beforeAll(async () => {
    writeLines(path('in.jsonl'), [{ tokens: [1, 9] }, { tokens: [1, 60, 33] }]);
    await job({}, false);
    truncateSync(path('out.jsonl'), readFileSync(path('out.jsonl')).indexOf(0x0a) + 1);
  });

  test.each(others)('is not resumed by one that differs in %s', async (difference, options) => {
    const before = readFileSync(path('out.jsonl'));
    await expect(job(options)).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining(`differs from the one that began it in ${difference};`) as unknown,
    });
    expect(readFileSync(path('out.jsonl')).equals(before)).toBe(true);
  });

  test('is resumed by one of the same model elsewhere, other instructions with the same bits, threads, blocks and places', async () => {
    copyFileSync(BASE.model, path('elsewhere.gguf'));
    const instructionSet = instructionSets.filter((set) => set !== 'amx').at(-1) ?? 'scalar';
    await expect(
      job({
        model: path('elsewhere.gguf'),
        instructionSet,
        threads: 1,
        batchSize: 3,
        batches: 2,
        disk: path('disk'),
        weights: { cpu: 0, disk: 1 },
      }),
    ).resolves.toMatchObject({ kept: 1, done: 1 });
  });
});

describe('Engine.resultIdentity', () => {
  test.each<[string, Partial<EngineOptions>]>([
    ['nothing', {}],
    ...others,
    ['a part of the layers', { layers: { first: 0, count: 1 } }],
  ])('is what was foreseen by the options and the files: %s', async (_, options) => {
    const given = { ...BASE, ...options };
    await using engine = await Engine.open(given);
    const { hash } = await identifyModel(engine.source.files);
    expect(engine.resultIdentity).toMatchObject(await Engine.check(given));
    expect(engine.resultIdentity).toMatchObject({
      model: hash,
      layers: options.layers ?? null,
      numerics: loadAddon().numerics,
    });
  });

  test('has no place for what is chosen when the model is opened, before that', async () => {
    expect(Object.keys(await Engine.check({ ...BASE, compressCache: 'auto' }))).not.toContain('compressCache');
    expect(Object.keys(await Engine.check({ ...BASE, compressWeights: 'auto' }))).not.toContain('compressWeights');
  });

  test('is of the bytes that were loaded: a file that is touched while the model is opened is refused', async () => {
    copyFileSync(BASE.model, path('touched.gguf'));
    const onLoad = (): void => utimesSync(path('touched.gguf'), new Date(), new Date());
    await new Promise((resolve) => setTimeout(resolve, 60));
    await expect(Engine.open({ ...BASE, model: path('touched.gguf'), onLoad })).rejects.toMatchObject({
      name: 'ModelFileError',
      file: path('touched.gguf'),
      message: expect.stringContaining('found a change while the model was opened') as unknown,
    });
  });
});
