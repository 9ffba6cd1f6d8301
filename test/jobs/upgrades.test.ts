import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { Engine, ReuseFile } from '../../src/index.js';
import { readPolicyFile } from '../../src/profile/readPolicyFile.js';
import type { GenerateOptions, RowInput } from '../../src/Row.js';
import type { RunStats } from '../../src/RunStats.js';
import { parseManifest } from '../../src/jobs/work/JobManifest.js';
import { memoryWork } from '../../src/jobs/work/memoryWork.js';
import { runWork } from '../../src/jobs/work/runWork.js';
import { collectJob } from '../../src/jobs/shards/collectJob.js';
import { runJob } from '../../src/jobs/runJob.js';
import { TINY_MODEL } from '../cli/support.js';
import { readResults, temporaryFolder } from './support/files.js';

// What versions left (test/fixtures/scripts/make_upgrades.mjs). A version that makes other answers (numerics
// rise) refuses the outputs by name, and does not take kept answers: then this says so, in that version's row.

const UPGRADES = fileURLToPath(new URL('../fixtures/upgrades/', import.meta.url));
const GENERATE: GenerateOptions = { maxNewTokens: 4, ignoreEos: true };
const path = temporaryFolder();

/** A copy of what a version left, to go on with. */
function left(version: string, name: string): (file: string) => string {
  const folder = path(`${version}-${name}`);
  cpSync(join(UPGRADES, version), folder, { recursive: true });
  return (file) => join(folder, file);
}

function rowsOf(file: string): RowInput[] {
  return readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as RowInput);
}

const openEngine = (more: object = {}): Promise<Engine> =>
  Engine.open({ model: TINY_MODEL, precision: 'float32', ...more });

async function answers(rows: readonly RowInput[], more: object = {}): Promise<(readonly number[])[]> {
  await using engine = await openEngine(more);
  const results: (readonly number[])[] = [];
  for await (const { tokens } of engine.generate(rows, GENERATE)) results.push(tokens);
  return results;
}

describe.each(readdirSync(UPGRADES))('what version %s left', (version) => {
  test('an output is gone on with: what it holds stays, and the rest is what it would have been', async () => {
    const file = left(version, 'output');
    const before = readFileSync(file('answers.jsonl'), 'utf8');
    await using engine = await openEngine();
    const { kept, done } = await runJob({
      engine,
      input: file('rows.jsonl'),
      output: file('answers.jsonl'),
      resume: true,
      generate: GENERATE,
    });
    expect({ kept, done }).toEqual({ kept: 6, done: 6 });
    expect(readFileSync(file('answers.jsonl'), 'utf8').startsWith(before)).toBe(true);
    const whole = readResults(file('answers.jsonl')).map(({ tokens }) => tokens);
    expect(whole).toEqual(await answers(rowsOf(file('rows.jsonl'))));
  });

  test('a table is, from its journal', async () => {
    const file = left(version, 'table');
    const before = readFileSync(file('answers.csv'), 'utf8');
    await using engine = await openEngine();
    await runJob({
      engine,
      input: file('rows.jsonl'),
      output: file('answers.csv'),
      resume: true,
      generate: GENERATE,
    });
    const table = readFileSync(file('answers.csv'), 'utf8');
    expect(table.startsWith(before)).toBe(true);
    expect(table.trimEnd().split('\n')).toHaveLength(13);
  });

  test('kept answers are taken', async () => {
    const file = left(version, 'reuse');
    await using engine = await openEngine();
    await using reuse = await ReuseFile.open(file('answers.reuse'));
    let stats: RunStats | undefined;
    const rows = rowsOf(file('rows-before.jsonl'));
    const results: unknown[] = [];
    for await (const { tokens } of engine.generate(rows, { ...GENERATE, reuse, onStats: (end) => (stats = end) }))
      results.push(tokens);
    expect(stats?.sharing.rowsReused).toBe(6);
    expect(results).toEqual(await answers(rows));
  });

  test('policies are read: one that was written, and that of a run', async () => {
    const file = left(version, 'policy');
    expect(await readPolicyFile(file('policy.json'))).toMatchObject({ weights: { disk: 1 }, batchSize: 4 });
    expect(await readPolicyFile(file('stats.json'))).toMatchObject({ schedule: 'diagonal', precision: 'float32' });
  });

  test('a repacked store changes no answer, whether or not it is taken', async () => {
    const file = left(version, 'store');
    const rows = rowsOf(file('rows.jsonl'));
    const policy = await readPolicyFile(file('policy.json'));
    expect(await answers(rows, { policy, disk: file('store') })).toEqual(await answers(rows));
  });

  test('a job that was submitted is worked on', async () => {
    const file = left(version, 'queue');
    const told = JSON.parse(readFileSync(file('manifest.json'), 'utf8')) as object;
    const output = file('collected.jsonl');
    const moved = { ...told, input: [file('rows.jsonl')], output, parts: `${output}.parts` };
    const source = memoryWork();
    await source.submit(parseManifest('queue', JSON.stringify(moved)));
    await using engine = await openEngine();
    expect(await runWork({ source, engine })).toMatchObject({ committed: 3, results: 12, failed: 0 });
    await collectJob({ source, input: file('rows.jsonl'), output });
    expect(readResults(output).map(({ tokens }) => tokens)).toEqual(await answers(rowsOf(file('rows.jsonl'))));
  });
});
