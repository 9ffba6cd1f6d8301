// Tokens a second of models whose layers mix tokens in several ways, beside a LLaMA of such a size in the same run: all
// prompts, then all new tokens, in rounds through all models.
//   node bench/mixers.mjs --folder DIR [--rows 16] [--prompt 128] [--new 32] [--rounds 3] [--threads 2] [--only a,b]
//     [--llama-cpp PROGRAM]
// DIR holds files of bench/models/makeMixers.py. A model's share is what it multiplies a second, by its weights, of what
// LLaMA multiplies. PROGRAM: llama-batched-bench (bench/peers/buildLlamaCpp.mjs), which computes the same files in the
// same rounds; a model's times are how many times its tokens a second ours are, and of LLaMA's times.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Engine } from '../dist/index.js';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags } from './lib/flags.mjs';
import { markdownTable } from './lib/results.mjs';
import { syntheticRows } from './lib/syntheticRows.mjs';
import { batchedBenchArguments, readBatchedBench } from './peers/batchedBench.mjs';

const { values, number } = readFlags(
  'usage: node bench/mixers.mjs --folder DIR [--rows 16] [--prompt 128] [--new 32] [--rounds 3] [--threads 2] [--only NAME,…] [--llama-cpp PROGRAM]',
  {
    folder: { type: 'string' },
    rows: { type: 'string', default: '16' },
    prompt: { type: 'string', default: '128' },
    new: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    only: { type: 'string' },
    'llama-cpp': { type: 'string' },
  },
);
const { folder, only, 'llama-cpp': program } = values;
if (!folder) fail('--folder: found none, expected one with files of bench/models/makeMixers.py');
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.gguf'))
  .map((file) => file.slice(0, -'.gguf'.length))
  .filter((name) => only === undefined || only.split(',').includes(name));
if (!names.includes('llama')) fail(`--folder: found ${names.join(', ') || 'no file'}, expected llama.gguf among them`);

const [count, promptTokens, maxNewTokens] = ['rows', 'prompt', 'new'].map((name) => number(name));
const models = [];
for (const name of names) {
  const path = join(folder, `${name}.gguf`);
  const { decoder, bindings } = await readModel(path);
  // Embeddings are looked up, and only the last token's head is computed: layers alone count.
  const weights = bindings
    .filter(({ layer, kind }) => layer >= 0 && kind === 'matrix')
    .reduce((all, { rows: outputs, columns }) => all + outputs * columns, 0);
  const rows = syntheticRows({ rows: count, promptTokens, vocabularySize: decoder.vocabularySize });
  models.push({
    name,
    path,
    weights,
    rows,
    vocabularySize: decoder.vocabularySize,
    prompts: [],
    steps: [],
    theirs: { prompts: [], steps: [] },
  });
}
const seconds = async (engine, rows, tokens) => {
  const start = performance.now();
  let got = 0;
  const asked = rows.map((row) => ({ ...row, maxNewTokens: tokens }));
  for await (const { error } of engine.generate(asked, { ignoreEos: true })) {
    if (error) throw new Error(error.message);
    got++;
  }
  if (got !== rows.length) throw new Error(`found ${got} results, expected ${rows.length}`);
  return (performance.now() - start) / 1000;
};
/** What the files do not say: that they have no tokenizer, and how many tokens there are. */
const overrides = (vocabularySize) =>
  ['llama', 'qwen35', 'granitehybrid', 'lfm2', 'gemma3', 'minicpm3']
    .map((architecture) => `${architecture}.vocab_size=int:${vocabularySize}`)
    .concat('tokenizer.ggml.model=str:none')
    .join(',');
function runLlamaCpp({ path, vocabularySize, theirs }) {
  const work = { model: path, rows: count, promptTokens, maxNewTokens, threads: number('threads') };
  const setting = { sequences: count, arguments: ['--override-kv', overrides(vocabularySize)] };
  const { stdout, stderr } = spawnSync(program, batchedBenchArguments(work, setting), { encoding: 'utf8' });
  const figures = readBatchedBench(stdout ?? '');
  if (figures === undefined) return process.stderr.write(`${path}: ${(stderr ?? 'no program').slice(-400)}\n`);
  theirs.prompts.push(figures.prefillSeconds);
  theirs.steps.push(figures.decodeSeconds);
}

for (let round = 0; round < number('rounds'); round++)
  for (const model of models) {
    const { path, rows, prompts, steps } = model;
    const engine = await Engine.open({ model: path, threads: number('threads'), batchSize: count, batches: 1 });
    await seconds(engine, rows, 1);
    const prompted = await seconds(engine, rows, 1);
    prompts.push(prompted);
    steps.push((await seconds(engine, rows, 1 + maxNewTokens)) - prompted);
    await engine.close();
    if (program !== undefined) runLlamaCpp(model);
  }
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const work = ({ weights, prompts, steps }) => [
  (weights * count * promptTokens) / median(prompts),
  (weights * count * maxNewTokens) / median(steps),
];
const ofLlama = models.find(({ name }) => name === 'llama');
const llama = work(ofLlama);
/** How many times llama.cpp's tokens a second ours are: of prompts, and of new tokens. */
const times = ({ prompts, steps, theirs }) =>
  theirs.prompts.length === 0
    ? [NaN, NaN]
    : [median(theirs.prompts) / median(prompts), median(theirs.steps) / median(steps)];
const headings = ['mixer', 'weights of layers', 'prompt tokens/s', 'of LLaMA', 'new tokens/s', 'of LLaMA'];
const beside = ['prompts, times llama.cpp', 'of LLaMA', 'new, times llama.cpp', 'of LLaMA'];
console.log(
  markdownTable(
    program === undefined ? headings : [...headings, ...beside],
    models.map((model) => {
      const [prompt, step] = work(model);
      const [prompts, steps] = times(model);
      const [llamaPrompts, llamaSteps] = times(ofLlama);
      return [
        model.name,
        `${(model.weights / 1e6).toFixed(0)} M`,
        ((count * promptTokens) / median(model.prompts)).toFixed(0),
        (prompt / llama[0]).toFixed(2),
        ((count * maxNewTokens) / median(model.steps)).toFixed(0),
        (step / llama[1]).toFixed(2),
        ...(program === undefined
          ? []
          : [prompts, prompts / llamaPrompts, steps, steps / llamaSteps].map((each) => each.toFixed(2))),
      ];
    }),
  ).join('\n'),
);
