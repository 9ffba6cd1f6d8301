import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { Cascade } from '../../src/cascade/Cascade.js';
import type { CascadeStage } from '../../src/cascade/CascadeStage.js';
import { Job } from '../../src/jobs/Job.js';
import { checkJobOptions } from '../../src/jobs/checkJobOptions.js';
import { runJob } from '../../src/jobs/runJob.js';
import { asWritten, stubEngine } from '../cascade/support.js';
import { readResults, temporaryFolder, writeLines } from './support/files.js';

const path = temporaryFolder();
const ROWS = 60;
const prompts = Array.from({ length: ROWS }, (_, at) => `${((at * 7) % 10) / 10} ${at}`);

/** @param breaks which row of which model ends the run */
function cascade(threshold = 0.5, breaks?: { readonly model: string; readonly row: number }): Cascade {
  const stage = (name: string, sure: (prompt: string) => number): Pick<CascadeStage, 'open' | 'resultIdentity'> => ({
    resultIdentity: { stub: name },
    open: async () => {
      const { generate, ...engine } = stubEngine(name, sure);
      return Promise.resolve({
        ...engine,
        async *generate(rows, options) {
          let row = 0;
          for await (const result of generate(rows, options)) {
            if (name === breaks?.model && row++ === breaks.row) throw new Error('cut off');
            yield result;
          }
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      });
    },
  });
  return new Cascade([
    { name: 'small', threshold, ...stage('small', asWritten) },
    { name: 'large', ...stage('large', () => 0.25) },
  ]);
}

const expected = prompts.map((prompt, index) => ({
  index,
  model: asWritten(prompt) >= 0.5 ? 'small' : 'large',
  confidence: asWritten(prompt) >= 0.5 ? asWritten(prompt) : 0.25,
}));

test('a job over a cascade that ends anywhere is gone on with, each row once, by the same model', async () => {
  const input = path('in.jsonl');
  writeLines(
    input,
    prompts.map((prompt) => ({ prompt })),
  );
  for (const order of ['input', 'completion'] as const)
    for (const model of ['small', 'large'])
      for (let row = 0; row < 30; row += 4) {
        const output = path(`${order}-${model}-${row}.jsonl`);
        const options = { input, output, resume: true, generate: { order } };
        await expect(runJob({ engine: cascade(0.5, { model, row }), ...options })).rejects.toThrow('cut off');
        const { kept, done } = await runJob({ engine: cascade(), ...options });
        expect(kept + done).toBe(ROWS);
        const results = readResults(output).sort((a, b) => (order === 'input' ? 0 : a.index - b.index));
        expect(results).toMatchObject(expected);
        expect(results).toHaveLength(ROWS);
      }
});

test('it is resumed by the same models with the same lines alone', async () => {
  const input = path('same.jsonl');
  writeLines(input, [{ prompt: '0.4' }, { prompt: '0.9' }]);
  const output = path('same-out.jsonl');
  await runJob({ engine: cascade(), input, output, limit: 1 });
  await expect(runJob({ engine: cascade(0.6), input, output, resume: true })).rejects.toThrow(
    /differs from the one that began it in cascade \(was \[\{"threshold":0.5.*is \[\{"threshold":0.6/,
  );
  const job = await Job.open({ input, output, resume: true, cascade: true });
  expect(job.begunWith).toEqual(cascade().resultIdentity);
  await job.close();
});

test('tables have a column for the model and for how sure it was', async () => {
  const input = path('in.csv');
  writeFileSync(input, 'id,prompt\na,0.9\nb,0.1\n');
  const output = path('out.csv');
  await runJob({ engine: cascade(), input, output });
  expect(readFileSync(output, 'utf8')).toBe(
    'id,prompt,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens,model,confidence\n' +
      'a,0.9,small:0.9,stop,,,1,1,small,0.9\nb,0.1,large:0.1,stop,,,1,1,large,0.25\n',
  );
  await runJob({ engine: cascade(), input, output: path('labels.csv'), classify: { labels: ['x', 'y'] } });
  expect(readFileSync(path('labels.csv'), 'utf8').split('\n')[0]).toMatch(/^id,prompt,label,probability,.*,model$/);
});

test('rows are drawn of the whole input, the same ones by seed', async () => {
  const input = path('drawn.jsonl');
  writeLines(
    input,
    prompts.map((prompt) => ({ prompt })),
  );
  const job = await Job.open({ input, output: path('drawn-out.jsonl'), limit: 3 });
  const rows = await job.drawn(20, 5);
  expect(rows).toHaveLength(20);
  expect(await job.drawn(20, 5)).toEqual(rows);
  expect(await job.drawn(20, 6)).not.toEqual(rows);
  expect(await job.drawn(1000)).toHaveLength(ROWS);
  await job.close();
  const once = await Job.open({ input: [{ prompt: 'a' }], output: path('once.jsonl') });
  await expect(once.drawn(1)).rejects.toThrow(/comes once/);
  await once.close();
});

test('several answers a row, and tasks without confidence, have no cascade', () => {
  expect(() => {
    checkJobOptions({ cascade: true, generate: { samples: 2 } });
  }).toThrow(/cascade: found it beside samples/);
  expect(() => {
    checkJobOptions({ cascade: true, embed: {} });
  }).toThrow(/cascade: found it beside embed/);
});
