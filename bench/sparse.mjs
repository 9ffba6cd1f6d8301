// What sparse attention saves where the cache is on disk: bytes read, seconds and tokens/s of new tokens, beside dense
// attention over the same cache, whose bytes it had when whole pages were read, and beside a cache in memory.
//   node bench/sparse.mjs --model FILE [--rows 2] [--prompt-tokens 4000] [--new-tokens 8] [--keep 0.1] [--disk FOLDER]
//     [--disk-rate MIB]
// Rows are pieces of this package's documents. --disk-rate bounds what is read a second (root, Linux's control groups),
// so that the disk is what is waited for.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Engine } from '../dist/index.js';
import { readFlags } from './lib/flags.mjs';
import { MachineCap } from './lib/MachineCap.mjs';

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
});
const [rows, promptTokens, newTokens] = [number('rows'), number('prompt-tokens'), number('new-tokens', 2)];

if (values['disk-rate'] !== '0') {
  const cap = new MachineCap(
    { disk: { folder: values.disk, bytesPerSecond: number('disk-rate') * 2 ** 20 } },
    'sparse',
  );
  const [program, ...args] = cap.around(process.execPath, ...process.argv.slice(1), '--disk-rate', '0');
  const { status } = spawnSync(program, args, { stdio: 'inherit' });
  cap.close();
  process.exit(status ?? 1);
}

const docs = new URL('../docs/', import.meta.url);
const text = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => readFileSync(new URL(name, docs), 'utf8'))
  .join('\n');

/** The run of one setting: its answers, and of the passes that made new tokens the bytes and the seconds. */
async function measure(sparseAttention, onDisk) {
  const engine = await Engine.open({
    model: values.model,
    disk: values.disk,
    policy: 'default',
    batchSize: rows,
    sparseAttention,
    cache: { cpu: 1 - onDisk, disk: onDisk },
    expectedRows: { promptTokens, newTokens, rows },
    learn: false,
  });
  const all = engine.tokenizer.encode(text);
  const given = Array.from({ length: rows }, (_, id) => {
    const first = Math.floor((id * (all.length - promptTokens)) / Math.max(1, rows - 1));
    return { id, tokens: Array.from(all.slice(first, first + promptTokens)), maxNewTokens: newTokens };
  });
  const seen = { bytes: 0, first: Infinity, last: 0, passes: new Set() };
  const answers = [];
  const run = {
    ignoreEos: true,
    onTrace({ name, ph, ts, dur, args }) {
      if (ph !== 'X' || !args.rows.every(([, first, tokens]) => tokens === 1 && first >= promptTokens)) return;
      if (name.startsWith('load_cache')) seen.bytes += args.bytes;
      seen.passes.add(args.pass);
      seen.first = Math.min(seen.first, ts);
      seen.last = Math.max(seen.last, ts + dur);
    },
  };
  for await (const { tokens, error } of engine.generate(given, run)) {
    if (error) throw new Error(error.message);
    answers.push(tokens);
  }
  await engine.close();
  const seconds = (seen.last - seen.first) / 1e6;
  return { answers: JSON.stringify(answers), bytes: seen.bytes, seconds, rate: (seen.passes.size * rows) / seconds };
}

const keep = Number(values.keep);
const table = {
  'in memory, sparse': await measure(keep, 0),
  'on disk, dense': await measure(1, 1),
  'on disk, sparse': await measure(keep, 1),
};
const { 'in memory, sparse': memory, 'on disk, dense': dense, 'on disk, sparse': sparse } = table;
console.log(`| cache | bytes read for new tokens | seconds | tokens/s |\n|-|-|-|-|`);
for (const [name, { bytes, seconds, rate }] of Object.entries(table))
  console.log(`| ${name} | ${bytes.toLocaleString('en')} | ${seconds.toFixed(2)} | ${rate.toFixed(2)} |`);
console.log(
  `\nkeeping ${keep} reads ${((100 * sparse.bytes) / dense.bytes).toFixed(1)}% of the bytes, at ${(sparse.rate / dense.rate).toFixed(2)} times the tokens/s; answers as in memory: ${sparse.answers === memory.answers}`,
);
