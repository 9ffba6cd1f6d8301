// A job in a queue, done by one worker and by several: the rows a second, each worker a process with processors of its
// own, beside a server that has the rest of the machine.
//   node bench/workers.mjs --model FILE [--workers 1,2,4] [--processors 0.45] [--rows 1024] [--shards 64] [--queue nats] [--repeat 1] [--json FILE]
// Linux and root, and Debian's nats-server or postgresql. Starting a worker and opening its model counts, as it does for
// whoever adds one.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags, stopSignal } from './lib/flags.mjs';
import { MachineCap } from './lib/MachineCap.mjs';
import { describeMachine } from './lib/machine.mjs';
import { markdownTable } from './lib/results.mjs';
import { median } from './lib/statistics.mjs';
import { writeSyntheticRows } from './lib/syntheticRows.mjs';

const { values, number } = readFlags(
  'usage: node bench/workers.mjs --model FILE [--workers 1,2,4] [--processors 0.45] [--rows 1024] [--shards 64] [--prompt-tokens 24] [--max-new-tokens 16] [--queue nats|postgres] [--repeat 1] [--json FILE]',
  {
    model: { type: 'string' },
    workers: { type: 'string', default: '1,2,4' },
    processors: { type: 'string', default: '0.45' },
    rows: { type: 'string', default: '1024' },
    shards: { type: 'string', default: '64' },
    'prompt-tokens': { type: 'string', default: '24' },
    'max-new-tokens': { type: 'string', default: '16' },
    queue: { type: 'string', default: 'nats' },
    repeat: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
);
if (!values.model) fail('--model: found none, expected the file of a model');
const counts = values.workers.split(',').map(Number);
if (!counts.every((count) => Number.isInteger(count) && count >= 1 && count <= 16))
  fail(`--workers: found ${values.workers}, expected numbers from 1 to 16`);
const PROGRAM = fileURLToPath(new URL('../dist/cli/spillway.js', import.meta.url));

/** The server, started on loopback, and its URL. */
async function startQueue() {
  register('../scripts/typescriptHooks.mjs', import.meta.url);
  const servers = await import('../test/support/databaseServers.ts');
  const [path, start, url] =
    values.queue === 'nats'
      ? [servers.natsServerPath(), servers.natsServer, (port) => `nats://127.0.0.1:${port}`]
      : [servers.postgresFolder(), servers.postgresServer, (port) => `postgres://spillway@127.0.0.1:${port}/postgres`];
  if (path === undefined) fail(`--queue: found ${values.queue}, whose server is not installed`);
  const server = await start(path);
  return { server, url: url(server.port) };
}

/** Seconds from the start of the first of so many workers to the end of the last. */
async function working(count, queue, stop) {
  const caps = Array.from({ length: count }, (_, at) => new MachineCap({ processors: Number(values.processors) }, at));
  try {
    const start = performance.now();
    const workers = caps.map((cap) => {
      const flags = ['job', 'work', ...queue, '--threads', '1', '--policy', 'default', '--progress', 'off'];
      const [program, ...args] = cap.around(process.execPath, PROGRAM, ...flags);
      return spawn(program, args, { stdio: 'ignore', signal: stop });
    });
    const codes = await Promise.all(workers.map(async (worker) => (await once(worker, 'close'))[0]));
    if (codes.some((code) => code !== 0)) throw new Error(`workers ended with ${codes.join(', ')}`);
    return (performance.now() - start) / 1000;
  } finally {
    for (const cap of caps) cap.close();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'spillway-workers-'));
const stop = stopSignal();
const { server, url } = await startQueue();
try {
  const { vocabularySize } = (await readModel(values.model)).decoder;
  const input = writeSyntheticRows(join(folder, 'rows.jsonl'), {
    rows: number('rows'),
    promptTokens: number('prompt-tokens'),
    vocabularySize,
  });
  const outputs = new Set();
  const runs = [];
  for (let turn = 0; turn < number('repeat'); turn++)
    for (const count of counts) {
      const name = `job-${turn}-${count}`;
      const queue = ['--queue', url, '--job', name];
      const output = join(folder, `${name}.jsonl`);
      const task = ['--model', values.model, '--max-new-tokens', values['max-new-tokens'], '--ignore-eos'];
      const files = ['--input', input, '--output', output, '--shards', values.shards];
      execFileSync(process.execPath, [PROGRAM, 'job', 'submit', ...queue, ...task, ...files], { stdio: 'ignore' });
      const seconds = await working(count, queue, stop);
      execFileSync(process.execPath, [PROGRAM, 'job', 'collect', ...queue, '--output', output], { stdio: 'ignore' });
      outputs.add(readFileSync(output, 'utf8'));
      runs.push({ count, seconds });
      process.stderr.write(`${count} workers: ${seconds.toFixed(1)} s\n`);
    }
  if (outputs.size > 1) throw new Error('found other outputs, expected the same of every number of workers');
  const secondsOf = (count) => median(runs.filter((run) => run.count === count).map(({ seconds }) => seconds));
  const [least] = counts;
  const table = counts.map((count) => ({
    count,
    rowsPerSecond: number('rows') / secondsOf(count),
    efficiency: (least * secondsOf(least)) / (count * secondsOf(count)),
  }));
  process.stdout.write(
    `${values.rows} rows in ${values.shards} shards on ${values.queue}, workers of ${values.processors} processors, the same bytes from each number of them:\n\n${markdownTable(
      ['workers', 'rows/s', 'efficiency'],
      table.map(({ count, rowsPerSecond, efficiency }) => [
        count,
        rowsPerSecond.toFixed(2),
        `${Math.round(100 * efficiency)}%`,
      ]),
    ).join('\n')}\n`,
  );
  if (values.json)
    writeFileSync(
      values.json,
      `${JSON.stringify({ machine: describeMachine(), flags: values, table, runs }, null, 2)}\n`,
    );
} finally {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
}
