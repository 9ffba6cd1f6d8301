// Calls that join one run beside one call: 64 rows as 64 calls at once (`mergeMap`, `generate` for each), two jobs beside
// one of all their rows, and the first token of a short call beside a bulk job.
//   node bench/calls.mjs --model FILE [--rows 64] [--job-rows 256] [--repeat 5]
// Prints seconds of each (medians) and their ratios; the ways take turns, so that they meet the same machine.
import { createHash } from 'node:crypto';
import { from, lastValueFrom, mergeMap, of, toArray } from 'rxjs';
import { Engine, offloadGenerate } from '../dist/index.js';
import { readFlags } from './lib/flags.mjs';
import { median } from './lib/statistics.mjs';

const { values, number } = readFlags(
  'usage: node bench/calls.mjs --model FILE [--rows 64] [--job-rows 256] [--repeat 5]',
  {
    model: { type: 'string' },
    rows: { type: 'string', default: '64' },
    'job-rows': { type: 'string', default: '256' },
    repeat: { type: 'string', default: '5' },
  },
);
const OPTIONS = { maxNewTokens: 32, ignoreEos: true };
const rowsOf = (count, first = 0) =>
  Array.from({ length: count }, (_, at) => ({
    id: first + at,
    prompt: `Question ${first + at}: what is ${(first + at) * 7} and why? `.repeat(3),
  }));
const engine = await Engine.open({ model: values.model });
const collect = async (results) => {
  const all = [];
  for await (const row of results) {
    if (row.error) throw new Error(row.error.message);
    all.push(row);
  }
  return all;
};
const hashOf = (rows) =>
  createHash('sha256')
    .update(JSON.stringify([...rows].sort((a, b) => a.id - b.id).map(({ id, tokens }) => [id, tokens])))
    .digest('hex');

/** Lets some ways take turns. @returns the median seconds of each */
const compare = async (ways) => {
  const seconds = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
  const hashes = new Set();
  for (let turn = 0; turn < number('repeat'); turn++)
    for (const [name, way] of Object.entries(ways)) {
      const start = performance.now();
      hashes.add(hashOf(await way()));
      seconds[name].push((performance.now() - start) / 1000);
    }
  if (hashes.size !== 1) throw new Error('the ways gave different answers');
  const [first] = Object.keys(ways);
  for (const [name, list] of Object.entries(seconds))
    process.stdout.write(
      `${name}: ${median(list).toFixed(2)} s (${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)}), ${(median(list) / median(seconds[first])).toFixed(2)} times ${first}\n`,
    );
};

const rows = rowsOf(number('rows'));
await collect(engine.generate(rows, OPTIONS));
await compare({
  'one call': () => collect(engine.generate(rows, OPTIONS)),
  mergeMap: () =>
    lastValueFrom(
      from(rows).pipe(
        mergeMap((row) => of(row).pipe(offloadGenerate(engine, OPTIONS))),
        toArray(),
      ),
    ),
  'a call for each row': async () =>
    (await Promise.all(rows.map((row) => collect(engine.generate([row], OPTIONS))))).flat(),
});

const half = number('job-rows');
const halves = [rowsOf(half), rowsOf(half, half)];
await compare({
  'one job': () => collect(engine.generate(halves.flat(), OPTIONS)),
  'two jobs': async () => (await Promise.all(halves.map((each) => collect(engine.generate(each, OPTIONS))))).flat(),
});

const latencies = { 'of the same priority': [], 'of a higher priority': [] };
for (const [name, priority] of [
  ['of the same priority', 0],
  ['of a higher priority', 1],
])
  for (let turn = 0; turn < number('repeat'); turn++) {
    const bulk = engine.generate(rowsOf(10_000), { ...OPTIONS, maxNewTokens: 128 });
    const taken = collect(bulk);
    taken.catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const start = performance.now();
    for await (const event of engine
      .generate([{ prompt: 'The capital of France is', maxNewTokens: 4 }], { priority, ignoreEos: true })
      .events())
      if (event.type === 'delta') {
        latencies[name].push((performance.now() - start) / 1000);
        break;
      }
    await bulk.return();
    await taken;
  }
for (const [name, list] of Object.entries(latencies))
  process.stdout.write(
    `first token of a short call ${name} beside a bulk job: ${(median(list) * 1000).toFixed(0)} ms (${list.map((each) => (each * 1000).toFixed(0)).join(', ')})\n`,
  );
await engine.close();
