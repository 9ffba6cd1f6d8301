// Tokens a second of models whose layers mix tokens in several ways, beside a LLaMA of such a size in the same run: all
// prompts, then all new tokens, in rounds through all models.
//   node bench/mixers.mjs --folder DIR [--rows 16] [--prompt 128] [--new 32] [--rounds 3] [--threads 2] [--only a,b]
// DIR holds files of bench/models/makeMixers.py. A model's share is what it multiplies a second, by its weights, of what
// LLaMA multiplies.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Engine } from '../dist/index.js';
import { readModel } from '../dist/api/models.js';
import { fail, readFlags } from './lib/flags.mjs';
import { markdownTable } from './lib/results.mjs';
import { syntheticRows } from './lib/syntheticRows.mjs';

const { values, number } = readFlags(
  'usage: node bench/mixers.mjs --folder DIR [--rows 16] [--prompt 128] [--new 32] [--rounds 3] [--threads 2] [--only NAME,…]',
  {
    folder: { type: 'string' },
    rows: { type: 'string', default: '16' },
    prompt: { type: 'string', default: '128' },
    new: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    only: { type: 'string' },
  },
);
const { folder, only } = values;
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
  models.push({ name, path, weights, rows, prompts: [], steps: [] });
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
for (let round = 0; round < number('rounds'); round++)
  for (const { path, rows, prompts, steps } of models) {
    const engine = await Engine.open({ model: path, threads: number('threads'), batchSize: count, batches: 1 });
    await seconds(engine, rows, 1);
    const prompted = await seconds(engine, rows, 1);
    prompts.push(prompted);
    steps.push((await seconds(engine, rows, 1 + maxNewTokens)) - prompted);
    await engine.close();
  }
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const work = ({ weights, prompts, steps }) => [
  (weights * count * promptTokens) / median(prompts),
  (weights * count * maxNewTokens) / median(steps),
];
const llama = work(models.find(({ name }) => name === 'llama'));
console.log(
  markdownTable(
    ['mixer', 'weights of layers', 'prompt tokens/s', 'of LLaMA', 'new tokens/s', 'of LLaMA'],
    models.map((model) => {
      const [prompt, step] = work(model);
      return [
        model.name,
        `${(model.weights / 1e6).toFixed(0)} M`,
        ((count * promptTokens) / median(model.prompts)).toFixed(0),
        (prompt / llama[0]).toFixed(2),
        ((count * maxNewTokens) / median(model.steps)).toFixed(0),
        (step / llama[1]).toFixed(2),
      ];
    }),
  ).join('\n'),
);
