// One run of Spillway, built from this checkout. `setting`: options of `Engine.open`; `steps`: also the times of
// prefill and decode, from the trace.
import { readFileSync } from 'node:fs';
import { Engine } from '../../dist/index.js';
import { zigZagBlock } from '../../dist/api/schedules.js';
import { StepTimes } from '../../dist/cli/StepTimes.js';
import { job, report, rows } from './workload.mjs';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

const opening = performance.now();
const engine = await Engine.open({ model: job.model, threads: job.threads, ...job.setting });
const start = performance.now();
if (job.openOnly) {
  await engine.close();
  process.stdout.write(`${JSON.stringify({ version, loadSeconds: (start - opening) / 1000 })}\n`);
  process.exit(0);
}
const stopping = new AbortController();
const limit = job.timeLimitSeconds === undefined ? undefined : setTimeout(() => stopping.abort(), job.timeLimitSeconds * 1000);
const steps = job.steps ? new StepTimes(rows[0].tokens.length) : undefined;
const outputs = rows.map(() => []);
let promptTokens = 0;
let stats;
try {
  for await (const result of engine.generate(rows, {
    maxNewTokens: job.maxNewTokens,
    ignoreEos: true,
    signal: stopping.signal,
    onStats: (final) => { stats = final; },
    // All rows are of one length and in one block: prompts first, then tokens, so that the two can be told apart.
    ...(steps && { schedule: zigZagBlock(), onTrace: (event) => steps.add(event) }),
  })) {
    if (result.error) throw new Error(`row ${result.id}: ${result.error.message}`);
    outputs[result.index] = result.tokens;
    promptTokens += result.usage.promptTokens;
  }
} catch (error) {
  if (!stopping.signal.aborted) throw error;
}
clearTimeout(limit);
const end = performance.now();
await engine.close();

report({
  version,
  loadSeconds: (start - opening) / 1000,
  seconds: (end - start) / 1000,
  promptTokens,
  tokens: outputs,
  stopped: stopping.signal.aborted,
  settings: { threads: job.threads, ...stats?.policy },
  bytes: stats?.bytes,
  memory: stats?.memory,
  orchestration: stats?.orchestration,
  ...steps?.figures(),
});
