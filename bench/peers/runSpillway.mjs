// One run of Spillway, built from this checkout.
import { readFileSync } from 'node:fs';
import { Engine } from '../../dist/index.js';
import { job, report, rows } from './workload.mjs';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

const opening = performance.now();
const engine = await Engine.open({ model: job.model, threads: job.threads, ...(job.batchSize ? { batchSize: job.batchSize } : {}) });
const start = performance.now();
const outputs = [];
let promptTokens = 0;
let policy = {};
for await (const result of engine.generate(rows, {
  maxNewTokens: job.maxNewTokens,
  ignoreEos: true,
  escapeSpecialTokens: true,
  onStats: (stats) => { policy = stats.policy; },
})) {
  if (result.error) throw new Error(`row ${result.id}: ${result.error.message}`);
  outputs[result.index] = result.tokens;
  promptTokens += result.usage.promptTokens;
}
const end = performance.now();
await engine.close();

report({
  version,
  loadSeconds: (start - opening) / 1000,
  seconds: (end - start) / 1000,
  promptTokens,
  tokens: outputs,
  settings: { threads: job.threads, ...policy },
});
