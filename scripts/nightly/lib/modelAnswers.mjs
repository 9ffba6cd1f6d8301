// Tokens and log-probabilities of models on each instruction set of the processor that this runs on: a line of JSON for
// each. Arguments: a model's path, and
// maybe the sets. For programs that compare processors; run by scripts/nightly/arm64.mjs.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../../dist/bindings/loadAddon.js';
import { Engine } from '../../../dist/index.js';

const SETTINGS = [
  {},
  { precision: 'float32' },
  { compressCache: '8bit' },
  { compressCache: '4bit', compressWeights: '8bit' },
  { sparseAttention: 0.5, compressWeights: '4bit' },
];
/** Prompts of the fixtures, which have answers by transformers beside them; other models are asked these ids. */
const PROMPTS = [[1], [3, 4, 5], Array.from({ length: 40 }, (_, at) => 2 + (at % 7))];

function promptsOf(path) {
  const file = path.endsWith('.gguf') ? path.replace('.gguf', '.reference.json') : join(path, 'reference.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).rows.map(({ tokens }) => tokens) : PROMPTS;
}

const [model, ...sets] = process.argv.slice(2);
const rows = promptsOf(model).map((tokens, id) => ({ id, tokens }));
for (const instructionSet of sets.length > 0 ? sets : loadAddon().machine().instructionSets)
  for (const [at, settings] of SETTINGS.entries()) {
    const engine = await Engine.open({ model, instructionSet, threads: 2, batchSize: 4, ...settings });
    const answers = [];
    for await (const { id, tokens, logprobs } of engine.generate(rows, {
      maxNewTokens: 12,
      logprobs: 2,
      ignoreEos: true,
    }))
      answers.push({ id, tokens, logprobs });
    await engine.close();
    process.stdout.write(`${JSON.stringify({ model, settings: at, instructionSet, answers })}\n`);
  }
