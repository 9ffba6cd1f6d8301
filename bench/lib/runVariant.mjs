// One run of one variant, in a process of its own: a composition of the public operators, chosen by the job.
import { Engine } from '../../dist/index.js';
import {
  compute,
  loadActivation,
  loadCache,
  loadWeight,
  overlap,
  serialize,
  storeActivation,
  storeCache,
  synchronize,
} from '../../dist/api/operators.js';

/**
 * The job, as variants.mjs writes it on the command line: {engine, rows, promptTokens, maxNewTokens, overlap, ahead:
 * {weights, cache, activations}, stores}.
 */
const job = JSON.parse(process.argv[2] ?? 'null');
if (job === null) {
  process.stderr.write('this file is started by variants.mjs\n');
  process.exit(1);
}

const pipeline = (run) =>
  (job.overlap ? overlap : serialize)(
    loadWeight(run, { ahead: job.ahead.weights }),
    loadCache(run, { ahead: job.ahead.cache }),
    loadActivation(run, { ahead: job.ahead.activations }),
    (job.stores ? overlap : serialize)(compute(run), storeActivation(run), storeCache(run)),
    synchronize(run),
  );

/** Rows of token ids: all of one length, no two alike, the same ones in every run. */
function* makeRows() {
  for (let row = 0; row < job.rows; row++) {
    yield {
      id: row,
      tokens: Array.from(
        { length: job.promptTokens },
        (_, position) => 100 + ((row * 7919 + position * 104729) % 5000),
      ),
    };
  }
}

// What is compared is stated; a plan would choose differently from variant to variant.
const engine = await Engine.open({ policy: 'default', ...job.engine });
let stats;
let tokens = 0;
const start = performance.now();
for await (const row of engine.generate(makeRows(), {
  maxNewTokens: job.maxNewTokens,
  ignoreEos: true,
  pipeline,
  onStats: (each) => {
    stats = each;
  },
})) {
  if (row.error) throw new Error(`row ${row.id}: ${row.error.message}`);
  tokens += row.tokens.length;
}
const seconds = (performance.now() - start) / 1000;
await engine.close();
if (tokens !== job.rows * job.maxNewTokens)
  throw new Error(`${tokens} tokens were made, expected ${job.rows * job.maxNewTokens}: the runs would not compare`);

process.stdout.write(
  `${JSON.stringify({
    seconds,
    generatedTokensPerSecond: tokens / seconds,
    busyShare: Object.fromEntries(
      Object.entries(stats.queues).map(([queue, { busySeconds }]) => [queue, busySeconds / seconds]),
    ),
    orchestration: stats.orchestration.fractionOfWall,
    bytes: stats.bytes,
    policy: stats.policy,
  })}\n`,
);
