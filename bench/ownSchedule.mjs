// A schedule of one's own, simulated and then run: the seconds that the simulation says beside those that it takes.
//   node bench/ownSchedule.mjs --model FILE [--rows 256] [--prompt-tokens 64] [--max-new-tokens 64] [--repeat 3]
// The schedule is that of examples/03-custom-schedule.ts, shortest job first, around zig-zag blocks; rows are of one length, so that the plan knows them.
// No run of that schedule is seen before it is simulated.
import { register } from 'node:module';
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

register('../scripts/typescriptHooks.mjs', import.meta.url);
const { shortestFirst } = await import('../examples/03-custom-schedule.ts');

const [rows, promptTokens, newTokens] = [number('rows'), number('prompt-tokens'), number('max-new-tokens')];
const given = Array.from({ length: rows }, (_, id) => ({
  id,
  tokens: Array.from({ length: promptTokens }, (__, at) => 5 + ((id * 7919 + at * 104729) % 4000)),
}));
const options = { maxNewTokens: newTokens, ignoreEos: true };
/** Seconds of one run over all rows. */
const secondsOf = async (engine, runOptions) => {
  const start = performance.now();
  let answered = 0;
  for await (const { error } of engine.generate(given, runOptions)) {
    if (error) throw new Error(error.message);
    answered += 1;
  }
  if (answered !== rows) throw new Error(`${answered} rows were answered, not ${rows}`);
  return (performance.now() - start) / 1000;
};

const shape = await readModelShape(values.model);
await cachedProfile();
// Ordinary runs of the library's own schedule, from which it learns how far the profile is off, as in any use.
const ordinary = await Engine.open({ model: values.model, schedule: 'zigzag' });
for (let turn = 0; turn < 4; turn++) await secondsOf(ordinary, options);
await ordinary.close();
const hardware = await cachedProfile();
const request = { hardware, shape, workload: { promptTokens, newTokens, rows }, allow: { schedules: ['zigzag'] } };
const { policy, predicted } = choosePolicy(request);
const schedule = () => shortestFirst(zigZagBlock(), policy.batchSize);
const simulated = await simulatePlan(request, policy, { schedule: schedule() });

const engine = await Engine.open({ model: values.model, policy, learn: false });
const own = { ...options, schedule: schedule() };
// The first run warms up.
await secondsOf(engine, own);
const seconds = [];
for (let turn = 0; turn < number('repeat'); turn++) seconds.push(await secondsOf(engine, own));
const measured = median(seconds);
process.stdout.write(
  `${policy.batches} x ${policy.batchSize} rows: zig-zag predicted ${predicted.wallSeconds.toFixed(2)} s, ${schedule().name} simulated ${simulated.seconds.toFixed(2)} s, measured ${measured.toFixed(2)} s (${seconds.map((each) => each.toFixed(2)).join(', ')}), simulated / measured ${(simulated.seconds / measured).toFixed(3)}\n`,
);
await engine.close();
