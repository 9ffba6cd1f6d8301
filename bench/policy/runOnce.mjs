// One run of the policy benchmark, in a process of its own: opens the engine by the job's plan, generates, prints what
// was predicted and what was measured.
import { Engine } from '../../dist/index.js';

/** The job, as bench/policy.mjs writes it: {engine: EngineOptions, rows, promptTokens, maxNewTokens}. */
const job = JSON.parse(process.argv[2] ?? 'null');
if (job === null) {
  process.stderr.write('this file is started by bench/policy.mjs\n');
  process.exit(1);
}
const { rows, promptTokens, maxNewTokens } = job;

/** Rows of token ids: all of one length, no two alike, the same ones in every run. */
function* makeRows() {
  for (let row = 0; row < rows; row++) {
    yield {
      id: row,
      tokens: Array.from({ length: promptTokens }, (_, position) => 100 + ((row * 7919 + position * 104_729) % 5000)),
    };
  }
}

const engine = await Engine.open({ ...job.engine, expectedRows: { promptTokens, newTokens: maxNewTokens, rows } });
let stats;
let tokens = 0;
const start = performance.now();
for await (const row of engine.generate(makeRows(), {
  maxNewTokens,
  ignoreEos: true,
  onStats: (each) => {
    stats = each;
  },
})) {
  if (row.error) throw new Error(`row ${row.id}: ${row.error.message}`);
  tokens += row.tokens.length;
}
const seconds = (performance.now() - start) / 1000;
await engine.close();
if (tokens !== rows * maxNewTokens)
  throw new Error(`${tokens} tokens were made, expected ${rows * maxNewTokens}: the runs would not compare`);
process.stdout.write(`${JSON.stringify({ seconds, tokens, origin: engine.plan.origin, stats })}\n`);
