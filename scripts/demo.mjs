// `npm run demo`: a real model answers a file of real tasks, through the library as users import it.
// Usage: node scripts/demo.mjs [--model FILE|ID] [--input FILE]; needs `npm run build` (npm run demo does it).
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Engine } from '../dist/index.js';
import { readRows } from '../dist/api/jobs.js';
import { knownModels, resolveModel } from '../dist/api/models.js';

const MIB = 2 ** 20;
const progress = process.stderr.isTTY;

/** Rewrites one line of a terminal; silent where stderr is none. */
function status(text) {
  if (progress) process.stderr.write(`\r\u001b[K${text}`);
}

/** Characters of an English text that a token stands for, about. */
const CHARACTERS_A_TOKEN = 4;

/** What an engine is to plan for: so few rows are answered sooner than a machine is measured. */
function expectedRows(rows, questions) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  return {
    rows: rows.length,
    promptTokens: Math.ceil(mean(questions.map((question) => question.length)) / CHARACTERS_A_TOKEN),
    newTokens: Math.ceil(mean(rows.map(({ maxNewTokens = 128 }) => maxNewTokens))),
  };
}

/** A table of two columns that is as wide as the terminal; what is longer goes on in the next line. */
function questionTable(entries, width) {
  const left = Math.floor((width - 3) * 0.4);
  const right = width - 3 - left;
  const line = (a, b) => `${a.padEnd(left)} │ ${b}`.trimEnd();
  const rule = `${'─'.repeat(left)}─┼─${'─'.repeat(right)}`;
  const rows = entries.map(([question, answer]) => {
    const [asked, answered] = [wrapped(question, left), wrapped(answer, right)];
    return Array.from({ length: Math.max(asked.length, answered.length) }, (_, at) =>
      line(asked[at] ?? '', answered[at] ?? ''),
    ).join('\n');
  });
  return [line('question', 'answer'), rule, ...rows].join('\n');
}

function wrapped(text, width) {
  const lines = [];
  for (const word of text
    .trim()
    .split(/\s+/)
    .flatMap((word) => word.match(new RegExp(`.{1,${width}}`, 'gu')) ?? [])) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

function summary({ rows, tokens, seconds, tokensPerSecond, residentPeakBytes }) {
  const wall = seconds.wall - seconds.load;
  return (
    `${rows.done} rows answered${rows.failed > 0 ? `, ${rows.failed} failed` : ''} in ${wall.toFixed(1)} s (model loaded in ${seconds.load.toFixed(1)} s): ` +
    `${tokens.generated} tokens, ${tokensPerSecond.generated.toFixed(0)} a second; ${(residentPeakBytes / MIB).toFixed(0)} MiB of memory at most`
  );
}

async function main() {
  const { values } = parseArgs({
    options: {
      model: { type: 'string', default: knownModels[0].id },
      input: { type: 'string', default: fileURLToPath(new URL('../examples/demo.jsonl', import.meta.url)) },
    },
  });
  if (!progress) process.stderr.write(`opening ${values.model} (the first time, it is downloaded)\n`);
  const model = await resolveModel(values.model, {
    onProgress: ({ source, bytes, totalBytes }) =>
      status(
        `fetching ${values.model} from ${source}: ${(bytes / MIB).toFixed(0)} of ${(totalBytes / MIB).toFixed(0)} MiB`,
      ),
  });
  const rows = [];
  for await (const row of readRows(values.input)) rows.push(row);
  const questions = rows.map((row) => row.messages?.at(-1)?.content ?? row.prompt ?? '');
  const engine = await Engine.open({
    model,
    expectedRows: expectedRows(rows, questions),
    onLoad: (bytes, totalBytes) => status(`loading weights: ${((100 * bytes) / totalBytes).toFixed(0)}%`),
  });
  try {
    let stats;
    const results = engine.generate(rows, {
      onProgress: ({ rowsDone, rowsActive, tokensPerSecond }) =>
        status(`${rowsDone} rows done, ${rowsActive} under way, ${tokensPerSecond.toFixed(0)} tokens/s`),
      onStats: (final) => {
        stats = final;
      },
    });
    const answers = [];
    for await (const { text, finishReason, error } of results)
      answers.push(error ? `failed: ${error.message}` : finishReason === 'length' ? `${text} …` : text);
    status('');
    const width = Math.min(process.stdout.columns ?? 100, 120);
    process.stdout.write(
      `${questionTable(
        questions.map((question, at) => [question, answers[at] ?? '']),
        width,
      )}\n\n${summary(stats)}\n`,
    );
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
