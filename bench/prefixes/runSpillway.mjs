// One run of Spillway over rows that may share their beginnings. Usage: runSpillway.mjs JOB (JSON: model, prompts,
// rows, maxNewTokens, threads, sharePrefixes)
import { readFileSync } from 'node:fs';
import { Engine } from '../../dist/index.js';

const job = JSON.parse(process.argv[2]);
const rows = readFileSync(job.prompts, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line))
  .slice(0, job.rows);
const engine = await Engine.open({ model: job.model, threads: job.threads, ...job.setting });
// As the other tools: once before the clock runs.
for await (const row of engine.generate([{ prompt: 'Warm up, please.' }], { maxNewTokens: 4 }))
  if (row.error) throw new Error(row.error.message);
const start = performance.now();
let [promptTokens, generated, stats] = [0, 0, undefined];
for await (const row of engine.generate(rows, {
  maxNewTokens: job.maxNewTokens,
  ignoreEos: true,
  sharePrefixes: job.sharePrefixes,
  onStats: (final) => {
    stats = final;
  },
})) {
  if (row.error) throw new Error(`row ${row.id}: ${row.error.message}`);
  promptTokens += row.usage.promptTokens;
  generated += row.usage.completionTokens;
}
const seconds = (performance.now() - start) / 1000;
await engine.close();
process.stdout.write(
  `${JSON.stringify({ rows: rows.length, seconds, promptTokens, generated, promptTokensSaved: stats.sharing.promptTokensSaved, memory: stats.memory, policy: stats.policy })}\n`,
);
