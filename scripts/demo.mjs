// `npm run demo`: a real model answers a file of real tasks, through the library as users import it.
// Usage: node scripts/demo.mjs [--model FILE|ID] [--input FILE]; needs `npm run build` (npm run demo does it).
import { createReadStream } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Engine, knownModels, resolveModel } from '../dist/index.js';

const MIB = 2 ** 20;
const progress = process.stderr.isTTY;

/** Rewrites one line of a terminal; silent where stderr is none. */
function status(text) {
  if (progress) process.stderr.write(`\r\u001b[K${text}`);
}

async function* readRows(file) {
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    if (line.trim() !== '') yield JSON.parse(line);
  }
}

function indented(text) {
  return text.trim().split('\n').map((line) => `    ${line}`).join('\n');
}

function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => `  ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join('  ')}`).join('\n');
}

function summary(stats) {
  const { rows, tokens, seconds, tokensPerSecond, queues, memory, predicted } = stats;
  const wall = seconds.wall - seconds.load;
  return [
    `${rows.done} rows answered${rows.failed > 0 ? `, ${rows.failed} failed` : ''} in ${wall.toFixed(1)} s (model loaded in ${seconds.load.toFixed(1)} s)`,
    ...(predicted === undefined ? [] : [`predicted: ${predicted.tokensPerSecond.toFixed(0)} tokens/s, ${predicted.wallSeconds.toFixed(1)} s`]),
    '',
    table([
      ['tokens', 'count', 'a second'],
      ['generated', String(tokens.generated), tokensPerSecond.generated.toFixed(1)],
      ['of prompts', String(tokens.prompt), tokensPerSecond.prompt.toFixed(1)],
    ]),
    '',
    table([
      ['queue', 'tasks', 'busy s', 'of the time'],
      ...Object.entries(queues).map(([name, { tasks, busySeconds }]) => [name, String(tasks), busySeconds.toFixed(2), `${((100 * busySeconds) / wall).toFixed(0)}%`]),
      ['JavaScript', '', stats.orchestration.seconds.toFixed(2), `${(100 * stats.orchestration.fractionOfWall).toFixed(0)}%`],
    ]),
    '',
    table([
      ['memory, MiB', 'peak', 'capacity'],
      ...Object.entries(memory).map(([tier, { peakBytes, capacityBytes }]) => [tier, (peakBytes / MIB).toFixed(0), (capacityBytes / MIB).toFixed(0)]),
      ['process', (stats.residentPeakBytes / MIB).toFixed(0), ''],
    ]),
  ].join('\n');
}

async function main() {
  const { values } = parseArgs({
    options: {
      model: { type: 'string', default: knownModels[0].id },
      input: { type: 'string', default: fileURLToPath(new URL('../examples/prompts.jsonl', import.meta.url)) },
    },
  });
  if (!progress) process.stderr.write(`opening ${values.model} (the first time, it is downloaded)\n`);
  const model = await resolveModel(values.model, {
    onProgress: ({ source, bytes, totalBytes }) => status(`fetching ${values.model} from ${source}: ${(bytes / MIB).toFixed(0)} of ${(totalBytes / MIB).toFixed(0)} MiB`),
  });
  const engine = await Engine.open({ model, onLoad: (bytes, totalBytes) => status(`loading weights: ${((100 * bytes) / totalBytes).toFixed(0)}%`) });
  try {
    let stats;
    const results = engine.generate(readRows(values.input), {
      onProgress: ({ rowsDone, rowsActive, tokensPerSecond }) => status(`${rowsDone} rows done, ${rowsActive} under way, ${tokensPerSecond.toFixed(0)} tokens/s`),
      onStats: (final) => { stats = final; },
    });
    for await (const { id, text, error } of results) {
      status('');
      process.stdout.write(`${id}\n${error ? `    failed: ${error.message}` : indented(text)}\n\n`);
    }
    status('');
    process.stdout.write(`${summary(stats)}\n`);
    return stats.rows.failed > 0 ? 4 : 0;
  } finally {
    await engine.close();
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  status('');
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}
