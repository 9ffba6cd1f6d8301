// Three questions about each row in one job, beside three jobs of one question each, one after the other: rows a
// second, and whether the answers are the same.
// Usage: node bench/questions.mjs [--model MODEL] [--rows N] [--tokens N] [--batch-size N]
import { parseArgs } from 'node:util';
import { Engine } from '../dist/index.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2-135m-instruct' },
    rows: { type: 'string', default: '256' },
    tokens: { type: 'string', default: '600' },
    'batch-size': { type: 'string', default: '32' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log('node bench/questions.mjs [--model MODEL] [--rows N] [--tokens N] [--batch-size N]');
  process.exit(0);
}

const QUESTIONS = [
  { name: 'tone', text: 'Is the text friendly?', choices: ['yes', 'no'] },
  { name: 'length', text: 'How many people speak?', schema: { type: 'integer', minimum: 0, maximum: 20 } },
  { name: 'topic', text: 'Name its topic in a few words.', maxNewTokens: 8 },
];
const WORDS = 'the old house by river where people meet to speak of weather work and what they saw on their way'.split(
  ' ',
);

/** Texts that differ from the first word on, so that rows share nothing but with themselves. */
function textOf(row, tokens) {
  let state = row * 7919 + 1;
  const next = () => (state = (state * 48271) % 2147483647);
  return Array.from({ length: tokens - 20 }, () => WORDS[next() % WORDS.length]).join(' ');
}

const rows = Array.from({ length: Number(values.rows) }, (_, row) => ({ prompt: textOf(row, Number(values.tokens)) }));
const open = () =>
  Engine.open({ model: values.model, batchSize: Number(values['batch-size']), policy: 'default', learn: false });

/** Runs jobs on an engine of their own; their answers by row and name, and how long they took. */
async function timed(...jobs) {
  const engine = await open();
  const answers = rows.map(() => ({}));
  let computed = 0;
  const start = performance.now();
  for (const questions of jobs) {
    const run = engine.ask(rows, questions, { chat: true });
    for await (const row of run)
      for (const [name, { text }] of Object.entries(row.answers ?? {})) answers[row.index][name] = text;
    const { tokens, sharing } = await run.stats;
    computed += tokens.prompt - sharing.promptTokensSaved;
  }
  const seconds = (performance.now() - start) / 1000;
  await engine.close();
  return { answers, computed, seconds };
}

const together = await timed(QUESTIONS);
const apart = { answers: rows.map(() => ({})), computed: 0, seconds: 0 };
// Each a job of its own: no job has what another has computed.
for (const question of QUESTIONS) {
  const { answers, computed, seconds } = await timed([question]);
  answers.forEach((answer, row) => Object.assign(apart.answers[row], answer));
  apart.computed += computed;
  apart.seconds += seconds;
}
const same = rows.filter(
  (_, row) => JSON.stringify(together.answers[row]) === JSON.stringify(apart.answers[row]),
).length;
const rate = ({ seconds }) => (rows.length / seconds).toFixed(2);
console.log(`${rows.length} rows of about ${values.tokens} tokens, three questions each`);
console.log(
  `one job:    ${together.seconds.toFixed(1)} s, ${rate(together)} rows/s, ${together.computed} prompt tokens computed`,
);
console.log(
  `three jobs: ${apart.seconds.toFixed(1)} s, ${rate(apart)} rows/s, ${apart.computed} prompt tokens computed`,
);
console.log(
  `${(apart.seconds / together.seconds).toFixed(2)} times the rows a second; ${same} of ${rows.length} rows with the same answers`,
);
