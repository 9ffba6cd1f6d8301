// What sparse attention saves where the cache is on disk: bytes read, seconds and tokens/s of new tokens, beside dense
// attention over the same cache, and over one of which as much more is in memory as sparse attention holds values in, and
// beside a cache in memory. Beside each stands what the plan says for this machine (its simulation, which takes choices to
// be independent), and below what may be read at all, by the closed form.
//   node bench/sparse.mjs --model FILE [--rows 2] [--prompt-tokens 4000] [--new-tokens 8] [--keep 0.1] [--disk FOLDER]
//     [--disk-rate MIB]
// Rows are pieces of this package's documents. --disk-rate bounds what is read a second (root, Linux's control groups),
// so that the disk is what is waited for.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { parsePolicy, profileMachine, readModelShape, simulatePlan } from '../dist/api/plan.js';
import { Engine } from '../dist/index.js';
import { boundsOfBlocksRead, shareHeld } from '../dist/plan/model/chosenValues.js';
import { gapWorthReading } from '../dist/plan/model/transferRates.js';
import { readFlags } from './lib/flags.mjs';
import { MachineCap } from './lib/MachineCap.mjs';
import { atBound } from './lib/profileWithin.mjs';

const usage =
  'usage: node bench/sparse.mjs --model FILE [--rows 2] [--prompt-tokens 4000] [--new-tokens 8] [--keep 0.1] [--disk FOLDER] [--disk-rate MIB]';
const { values, number } = readFlags(usage, {
  model: { type: 'string' },
  rows: { type: 'string', default: '2' },
  'prompt-tokens': { type: 'string', default: '4000' },
  'new-tokens': { type: 'string', default: '8' },
  keep: { type: 'string', default: '0.1' },
  disk: { type: 'string', default: tmpdir() },
  'disk-rate': { type: 'string', default: '0' },
  // Said to the one that runs within that rate.
  bounded: { type: 'boolean', default: false },
});
const [rows, promptTokens, newTokens] = [number('rows'), number('prompt-tokens'), number('new-tokens', 2)];

const bytesPerSecond = number('disk-rate', 0) * 2 ** 20;

if (bytesPerSecond > 0 && !values.bounded) {
  const cap = new MachineCap({ disk: { folder: values.disk, bytesPerSecond } }, 'sparse');
  const [program, ...args] = cap.around(process.execPath, ...process.argv.slice(1), '--bounded');
  const { status } = spawnSync(program, args, { stdio: 'inherit' });
  cap.close();
  process.exit(status ?? 1);
}

const docs = new URL('../docs/', import.meta.url);
const text = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => readFileSync(new URL(name, docs), 'utf8'))
  .join('\n');

/** Counts of the passes that make new tokens the bytes that are read, and the seconds. */
function counting() {
  const seen = { bytes: 0, first: Infinity, last: 0, passes: new Set() };
  return {
    onTrace({ name, ph, ts, dur, args }) {
      if (ph !== 'X' || !args.rows.every(([, first, tokens]) => tokens === 1 && first >= promptTokens)) return;
      if (name.startsWith('load_cache')) seen.bytes += args.bytes;
      seen.passes.add(args.pass);
      seen.first = Math.min(seen.first, ts);
      seen.last = Math.max(seen.last, ts + dur);
    },
    counted() {
      const seconds = (seen.last - seen.first) / 1e6;
      return { bytes: seen.bytes, seconds, rate: (seen.passes.size * rows) / seconds };
    },
  };
}

const measuredHere = await profileMachine({ disk: values.disk, budget: 0.3 });
const hardware = bytesPerSecond > 0 ? atBound(measuredHere, bytesPerSecond) : measuredHere;
const shape = await readModelShape(values.model);

/** The answers of one setting, what was counted, and what the plan has of it. */
async function measure(sparseAttention, onDisk) {
  const cache = { cpu: 1 - onDisk, disk: onDisk };
  const policy = parsePolicy({ batchSize: rows, weights: { cpu: 1 }, cache, sparseAttention }, 'this benchmark');
  const engine = await Engine.open({
    model: values.model,
    disk: values.disk,
    policy,
    hardware,
    expectedRows: { promptTokens, newTokens, rows },
    learn: false,
  });
  const all = engine.tokenizer.encode(text);
  const given = Array.from({ length: rows }, (_, id) => {
    const first = Math.floor((id * (all.length - promptTokens)) / Math.max(1, rows - 1));
    return { id, tokens: Array.from(all.slice(first, first + promptTokens)), maxNewTokens: newTokens };
  });
  const answers = [];
  const run = counting();
  for await (const { tokens, error } of engine.generate(given, { ignoreEos: true, onTrace: run.onTrace })) {
    if (error) throw new Error(error.message);
    answers.push(tokens);
  }
  await engine.close();
  const plan = counting();
  await simulatePlan({ hardware, shape, workload: { promptTokens, newTokens, rows } }, policy, {
    onTrace: plan.onTrace,
  });
  return { answers: JSON.stringify(answers), ...run.counted(), planned: plan.counted() };
}

const keep = Number(values.keep);
// Of values, which are half of a page.
const held = shareHeld(shape.layers, 1);
const gapBlocks = Math.floor(gapWorthReading(hardware) / 512);
const table = {
  'in memory, sparse': await measure(keep, 0),
  'on disk, dense': await measure(1, 1),
  'dense, held in memory': await measure(1, 1 - held / 2),
  'on disk, sparse': await measure(keep, 1),
};
const { 'in memory, sparse': memory, 'on disk, dense': dense, 'on disk, sparse': sparse } = table;
const fair = table['dense, held in memory'];
console.log('| cache | bytes read for new tokens | planned | seconds | tokens/s | planned |\n|-|-|-|-|-|-|');
for (const [name, { bytes, seconds, rate, planned }] of Object.entries(table))
  console.log(
    `| ${name} | ${bytes.toLocaleString('en')} | ${Math.round(planned.bytes).toLocaleString('en')} | ${seconds.toFixed(2)} | ${rate.toFixed(2)} | ${planned.rate.toFixed(2)} |`,
  );
const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)}%`;
console.log(
  `\nkeeping ${keep} reads ${percent(sparse.bytes, dense.bytes)} of the bytes, at ${(sparse.rate / dense.rate).toFixed(2)} times the tokens/s; answers as in memory: ${sparse.answers === memory.answers}`,
);
console.log(
  `of dense attention with as much memory, ${percent(held / 2, 1)} of the cache: ${percent(sparse.bytes, fair.bytes)} of the bytes, ${(sparse.rate / fair.rate).toFixed(2)} times the tokens/s`,
);
console.log(`values with up to ${gapBlocks} blocks of 512 bytes between them are read together`);
// Of 16 bits.
const [groupHeads, blockTokens] = [shape.heads / shape.kvHeads, Math.max(1, 256 / shape.headDim)];
let [least, most, all] = [0, 0, 0];
for (let at = promptTokens; at < promptTokens + newTokens - 1; at++) {
  const positions = { seen: at + 1, onDisk: at - (at % 32) };
  const blocks = boundsOfBlocksRead(keep, positions, {
    groupHeads,
    blockTokens,
    held: at === promptTokens ? 0 : (held * positions.onDisk) / blockTokens,
    gapBlocks,
  });
  least += blocks.least;
  most += blocks.most;
  all += positions.onDisk / blockTokens;
}
console.log(
  `by the closed form ${percent(all + least, 2 * all)} (all heads agree) to ${percent(all + most, 2 * all)} (no two do); planned ${percent(sparse.planned.bytes, dense.planned.bytes)} (heads choose independently), ${(sparse.planned.rate / dense.planned.rate).toFixed(2)} times`,
);
