import { appendFileSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { runJob } from '../../src/jobs/runJob.js';
import type { JobSummary } from '../../src/jobs/JobOptions.js';
import { failureOf } from './formats/support.js';
import { readResults, temporaryFolder, writeLines } from './support/files.js';
import { SampledEngine } from './support/sampledEngine.js';

const path = temporaryFolder();
let names = 0;

/** A job of two rows with three samples each, stopped after sample 0 of the first; and how to go on with it. */
async function stopped(): Promise<{ output: string; goOn: (engine: SampledEngine) => Promise<JobSummary> }> {
  names += 1;
  const [input, output] = [path(`${names}.jsonl`), path(`${names}-out.jsonl`)];
  writeLines(input, [{ prompt: 'a' }, { prompt: 'b' }]);
  const options = { input, output, generate: { samples: 3 } };
  const engine = new SampledEngine({ fate: (_, sample) => (sample === 0 ? 'answered' : 'stopped') });
  await failureOf(runJob({ ...options, engine }));
  expect(readResults(output)).toHaveLength(1);
  return { output, goOn: (next) => runJob({ ...options, engine: next, resume: true }) };
}

const MEMORY = expect.objectContaining({ code: 'memory' }) as unknown;

test('a row that is refused where some of its samples stand already has an error for each of the others, and the job goes on', async () => {
  const { output, goOn } = await stopped();
  const refusing = new SampledEngine({ refuses: (prompt) => prompt === 'a' });
  expect(await goOn(refusing)).toEqual({ rows: 2, done: 5, failed: 2, kept: 1, keptFailed: 0 });
  expect(readResults(output).map(({ index, sample, text, error }) => [index, sample, text, error])).toEqual([
    [0, 0, 'A0', undefined],
    [0, 1, '', MEMORY],
    [0, 2, '', MEMORY],
    [1, 0, 'B0', undefined],
    [1, 1, 'B1', undefined],
    [1, 2, 'B2', undefined],
  ]);
  expect(await goOn(refusing)).toEqual({ rows: 2, done: 0, failed: 0, kept: 6, keptFailed: 2 });
});

test('an output in which a row was refused as a whole beside one of its samples is gone on with', async () => {
  const { output, goOn } = await stopped();
  const [first] = readResults(output);
  const { sample: _, ...refused } = {
    ...first,
    text: '',
    finishReason: 'error',
    error: { code: 'memory', message: '' },
  };
  appendFileSync(output, `${JSON.stringify(refused)}\n`);
  expect(await goOn(new SampledEngine())).toMatchObject({ rows: 2, done: 3, kept: 2, keptFailed: 1 });
  const whole = readFileSync(output, 'utf8');
  expect(await goOn(new SampledEngine())).toMatchObject({ done: 0, kept: 5 });
  expect(readFileSync(output, 'utf8')).toBe(whole);
});
