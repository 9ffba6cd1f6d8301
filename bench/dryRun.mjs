// A dry run beside what it cannot do without, reading and tokenizing its rows; and its forecast beside runs.
//   node bench/dryRun.mjs --model FILE [--rows 1000000] [--jobs on|off] [--ratio on|off]
// Prints seconds and CPU seconds of both over a table of CSV, and their ratios; then of three jobs what was forecast and
// what the run took, less opening. The rows that the dry run calls bad are compared with those of the run.
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { Engine } from '../dist/index.js';
import { dryRun, estimateRows, readRows, runJob } from '../dist/api/jobs.js';
import { createTokenizer, readModel } from '../dist/api/models.js';
import { readFlags } from './lib/flags.mjs';

const { values, number } = readFlags(
  'usage: node bench/dryRun.mjs --model FILE [--rows 1000000] [--jobs on|off] [--ratio on|off] [--folder DIR]',
  {
    model: { type: 'string' },
    rows: { type: 'string', default: '1000000' },
    jobs: { type: 'string', default: 'on' },
    ratio: { type: 'string', default: 'on' },
    folder: { type: 'string', default: tmpdir() },
  },
);
const folder = mkdtempSync(join(values.folder, 'spillway-dry-run-'));
/** Texts as people write them. */
const WORDS = ['README.md', 'SECURITY.md', 'CHANGELOG.md', 'docs/command-line.md', 'docs/architecture.md']
  .flatMap((file) => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8').split(/\s+/))
  .map((word) => word.replaceAll('"', ''));

/** A table of reviews, of which every thousandth is bad. @param words of a review, at least and at most */
async function writeTable(name, rows, [least, most]) {
  const path = join(folder, name);
  const file = createWriteStream(path);
  file.write('id,prompt,note\n');
  for (let at = 0; at < rows; at++) {
    const count = least + ((at * 7919) % (most - least + 1));
    const from = (at * 7717) % (WORDS.length - most);
    const text = `${at}: ${WORDS.slice(from, from + count).join(' ')}`;
    const line = at % 1000 === 999 ? `${at - 1},a second of that id,\n` : `${at},"${text}","n ""${at}"""\n`;
    if (!file.write(line)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'finish');
  return path;
}

const timed = async (work) => {
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  const value = await work();
  const { user, system } = process.cpuUsage(cpu);
  return { value, seconds: (performance.now() - start) / 1000, cpu: (user + system) / 1e6 };
};

const words = ({ seconds, cpu }) => `${seconds.toFixed(1)} s, ${cpu.toFixed(1)} s of CPU`;

try {
  if (values.ratio === 'on') {
    const input = await writeTable('rows.csv', number('rows'), [20, 80]);
    const source = await readModel(values.model);
    const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
    const floor = await timed(async () => {
      let tokens = 0;
      for await (const row of readRows(input)) if ('prompt' in row) tokens += tokenizer.encode(row.prompt).length;
      return tokens;
    });
    console.log(`reading and tokenizing ${number('rows')} rows: ${words(floor)}, ${floor.value} tokens`);
    const dry = await timed(() => dryRun({ input, engine: { model: values.model }, generate: { maxNewTokens: 16 } }));
    console.log(
      `dry run: ${words(dry)}, ${dry.value.promptTokens.total} tokens, ${dry.value.bad.length} bad rows named`,
    );
    console.log(
      `ratio: ${(dry.seconds / floor.seconds).toFixed(2)} of seconds, ${(dry.cpu / floor.cpu).toFixed(2)} of CPU seconds`,
    );
  }
  if (values.jobs === 'on') {
    for (const [name, rows, length, maxNewTokens] of [
      ['short prompts, 32 new tokens', 2048, [5, 40], 32],
      ['long prompts, 4 new tokens', 256, [300, 500], 4],
      ['middling prompts, 128 new tokens', 512, [60, 120], 128],
    ]) {
      const input = await writeTable('job.csv', rows, length);
      const generate = { maxNewTokens, ignoreEos: true };
      // As the command does: it has counted the rows.
      const expectedRows = async (tokenizer) => ({ ...(await estimateRows(input, tokenizer, { generate })), rows });
      const report = await dryRun({ input, engine: { model: values.model, expectedRows }, generate });
      const engine = await Engine.open({ model: values.model, expectedRows });
      const failed = [];
      const output = join(folder, 'out.jsonl');
      const run = await timed(() => runJob({ engine, input, output, overwrite: true, generate }));
      await engine.close();
      for await (const row of readRows(output, { carryFields: true, templated: true }))
        if (row.fields?.error) failed.push(`${row.fields.index} ${row.fields.error.code}`);
      const forecast = report.predicted?.wallSeconds ?? NaN;
      const same = JSON.stringify(failed) === JSON.stringify(report.bad.map(({ index, code }) => `${index} ${code}`));
      console.log(
        `${name}, ${rows} rows: forecast ${forecast.toFixed(1)} s, run ${run.seconds.toFixed(1)} s, ${(100 * (forecast / run.seconds - 1)).toFixed(0)}%; bad rows ${same ? 'the same' : 'OTHERS'} (${failed.length})`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
