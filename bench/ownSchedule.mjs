// A schedule of one's own, simulated and then run: the seconds that the simulation says beside those that it takes.
//   node bench/ownSchedule.mjs --model FILE [--rows 256] [--prompt-tokens 64] [--max-new-tokens 64] [--repeat 3]
// The schedule is shortest job first around zig-zag blocks; rows are of one length, so that the plan knows them.
import { Engine } from '../dist/index.js';
import { choosePolicy, cachedProfile, readModelShape, simulatePlan } from '../dist/api/plan.js';
import { zigZagBlock } from '../dist/api/schedules.js';
import { readFlags } from './lib/flags.mjs';
import { median } from './lib/statistics.mjs';

const usage =
  'usage: node bench/ownSchedule.mjs --model FILE [--rows 256] [--prompt-tokens 64] [--max-new-tokens 64] [--repeat 3]';
const { values, number } = readFlags(usage, {
  model: { type: 'string' },
  rows: { type: 'string', default: '256' },
  'prompt-tokens': { type: 'string', default: '64' },
  'max-new-tokens': { type: 'string', default: '64' },
  repeat: { type: 'string', default: '3' },
});

/** Looks at rows beyond those under way and starts those with the fewest tokens first. */
function shortestFirst(inner, lookAhead) {
  const length = ({ promptTokens, newTokens }) => promptTokens + newTokens;
  return {
    name: `shortest first, ${inner.name}`,
    start: (grid) => ({ inner: inner.start(grid), waiting: [] }),
    free: (state, ended) => inner.free(state.inner, ended) + lookAhead - state.waiting.length,
    next: (state, { admitted, ended, ...observed }) => {
      const queue = [...state.waiting.filter(({ row }) => !ended.has(row)), ...admitted].sort(
        (a, b) => length(a) - length(b),
      );
      const starting = queue.slice(0, inner.free(state.inner, ended));
      const { state: after, squares } = inner.next(state.inner, { ...observed, admitted: starting, ended });
      return { state: { inner: after, waiting: queue.slice(starting.length) }, squares };
    },
  };
}

const [rows, promptTokens, newTokens] = [number('rows'), number('prompt-tokens'), number('max-new-tokens')];
const shape = await readModelShape(values.model);
const hardware = await cachedProfile();
const request = { hardware, shape, workload: { promptTokens, newTokens, rows }, allow: { schedules: ['zigzag'] } };
const { policy, predicted } = choosePolicy(request);
const schedule = () => shortestFirst(zigZagBlock(), policy.batchSize);
const simulated = await simulatePlan(request, policy, { schedule: schedule() });

await using engine = await Engine.open({ model: values.model, policy, learn: 'off' });
const given = Array.from({ length: rows }, (_, id) => ({
  id,
  tokens: Array.from({ length: promptTokens }, (__, at) => 5 + ((id * 7919 + at * 104729) % 4000)),
}));
const seconds = [];
for (let turn = 0; turn <= number('repeat'); turn++) {
  const start = performance.now();
  let answered = 0;
  for await (const { error } of engine.generate(given, {
    maxNewTokens: newTokens,
    ignoreEos: true,
    schedule: schedule(),
  })) {
    if (error) throw new Error(error.message);
    answered += 1;
  }
  if (answered !== rows) throw new Error(`${answered} rows were answered, not ${rows}`);
  // The first run warms up.
  if (turn > 0) seconds.push((performance.now() - start) / 1000);
}
const measured = median(seconds);
process.stdout.write(
  `${policy.batches} x ${policy.batchSize} rows: zig-zag predicted ${predicted.wallSeconds.toFixed(2)} s, ${schedule().name} simulated ${simulated.seconds.toFixed(2)} s, measured ${measured.toFixed(2)} s (${seconds.map((each) => each.toFixed(2)).join(', ')}), simulated / measured ${(simulated.seconds / measured).toFixed(3)}\n`,
);
