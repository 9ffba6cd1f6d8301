import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { Engine, type RowResult } from '../../src/index.js';
import { runJob } from '../../src/api/jobs.js';
import { model, unequalRows } from './support.js';

const path = temporaryFolder();
const WORKERS = 4;
const MAIN = pathToFileURL(built('cli/main.js'));

/** Runs a job in a thread, again and again, until it is terminated. */
const SOURCE = `
  const { parentPort, workerData: { entries, options, job } } = require('node:worker_threads');
  Promise.all(entries.map((entry) => import(entry))).then(async ([{ Engine }, { runJob }]) => {
    const engine = await Engine.open(options);
    for (;;) await runJob({ engine, ...job, overwrite: true, generate: { ...job.generate, onProgress: () => parentPort.postMessage('at work') } });
  });`;

async function answers(engine: Engine): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for await (const row of engine.generate(unequalRows, { logprobs: 1 })) results.push(row);
  return results;
}

test('worker threads terminated in the middle of jobs: another engine of the process goes on, and their output can be gone on with at once', async () => {
  mkdirSync(path('disk'));
  const options = {
    model: model('llama-Q4_1.gguf'),
    batchSize: 16,
    disk: path('disk'),
    weights: { cpu: 0, disk: 1 },
    cache: { cpu: 0.5, disk: 0.5 },
  };
  const job = { input: path('in.jsonl'), output: path('out.jsonl'), generate: { maxNewTokens: 24, ignoreEos: true } };
  writeLines(
    job.input,
    Array.from({ length: 60 }, (_, at) => ({ id: at, tokens: [1, 3 + (at % 250), 7] })),
  );
  await using engine = await Engine.open(options);
  await runJob({ engine, ...job });
  const [expected, reference] = [await answers(engine), readFileSync(job.output, 'utf8')];

  for (let at = 0; at < WORKERS; at += 1) {
    const worker = new Worker(SOURCE, {
      eval: true,
      workerData: {
        entries: ['../index.js', '../api/jobs.js'].map((entry) => new URL(entry, MAIN).href),
        options,
        job,
      },
    });
    const died = new Promise<never>((_, reject) => void worker.once('error', reject));
    await Promise.race([died, new Promise<void>((resolve) => void worker.on('message', () => resolve()))]);
    const beside = answers(engine);
    await worker.terminate();
    expect(await beside).toEqual(expected);
    await runJob({ engine, ...job, resume: true });
    expect(readFileSync(job.output, 'utf8')).toBe(reference);
  }
  expect(readdirSync(path('disk'))).toEqual([expect.stringMatching(/\.weights$/)]);
  expect(readdirSync(path('.')).sort()).toEqual(['disk', 'in.jsonl', 'out.jsonl', 'out.jsonl.job.json']);
});
