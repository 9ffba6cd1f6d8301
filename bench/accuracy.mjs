// What is lossy, in figures, as FlexGen's table 6 has them: the perplexity of a model on a text, and the last words of
// passages that it guesses, for each way of rounding its weights and its cache, with sparse attention, and without keys
// that were let go.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PEERS, SETTINGS } from './accuracy/settings.mjs';
import { isRight, lastWords } from './accuracy/lastWords.mjs';
import { accuracyTable } from './accuracy/table.mjs';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { hfFolder, w8a8Folder } from './lib/hfFolder.mjs';
import { describeMachine, machineInWords } from './lib/machine.mjs';
import { RESULTS, rewriteTable, writeResults } from './lib/results.mjs';
import { mobyDickWords } from './peers/mobyDick.mjs';

const USAGE = `usage: node bench/accuracy.mjs --model FILE.gguf [--f16 FILE.gguf | --python PYTHON] [--tokens 6144] [--window 1536] [--prompt-tokens 512] [--passages 300]
  [--only WORDS,…] [--vllm PYTHON] [--output FOLDER] [--write]
--f16: the same weights in 16 bits, by bench/models/requantise.py --type f16; --python: a Python with bench/models/requirements.txt, to make that file now
--window, --prompt-tokens: windows do not overlap; the prompt of each is given and not scored, the rest is scored as if it were generated token by token
--passages: of 300 words each, of whose next word the model has to guess the letters, greedily
--only: settings whose names have one of these words; --vllm: a Python that has vllm for the CPU, whose perplexity is on the same tokens
--write: puts the table into docs/performance.md, where the model has a place there`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string' },
  f16: { type: 'string' },
  python: { type: 'string' },
  tokens: { type: 'string', default: '6144' },
  window: { type: 'string', default: '1536' },
  'prompt-tokens': { type: 'string', default: '512' },
  passages: { type: 'string', default: '300' },
  only: { type: 'string' },
  vllm: { type: 'string' },
  output: { type: 'string', default: RESULTS },
  write: { type: 'boolean', default: false },
});

const stopping = stopSignal();

/** The 16-bit model: given, or made before, or made now. */
function halfPrecisionModel() {
  if (values.f16 !== undefined) return values.f16;
  const folder = join(cacheFolder(), 'models');
  const file = join(folder, `${basename(values.model, '.gguf')}-f16.gguf`);
  if (existsSync(file)) return file;
  if (values.python === undefined)
    fail(`found no ${file}, expected the weights in 16 bits: --f16 names them, --python makes them`);
  mkdirSync(folder, { recursive: true });
  const script = fileURLToPath(new URL('models/requantise.py', import.meta.url));
  execFileSync(values.python, [script, values.model, file, '--type', 'f16'], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return file;
}

/** The first tokens of the book. */
async function textOf(model, count) {
  const { createTokenizer, readModel } = await import('../dist/api/models.js');
  const { tokenizer, decoder } = await readModel(model);
  // A word is a token at least.
  const text = mobyDickWords().slice(0, count).join(' ');
  const tokens = createTokenizer(tokenizer, decoder.vocabularySize).encode(text, {
    specialTokens: false,
    parseSpecial: false,
  });
  if (tokens.length < count) fail(`--tokens: found ${count}, but the book has ${tokens.length}`);
  return tokens.slice(0, count);
}

/** Bits a weight in the file, of the matrices of its layers. */
async function fileBits(model) {
  const { readModel } = await import('../dist/api/models.js');
  const matrices = (await readModel(model)).tensors.filter(
    ({ name, shape }) => shape.length > 1 && /\.\d+\./.test(name),
  );
  const weights = matrices.reduce((sum, { shape }) => sum + shape.reduce((product, extent) => product * extent, 1), 0);
  return (8 * matrices.reduce((sum, { bytes }) => sum + bytes, 0)) / weights;
}

/** How many of the passages' words are what the model goes on with. */
async function countRight(engine, passages) {
  let right = 0;
  const rows = passages.map(({ prompt }, id) => ({ id, prompt }));
  for await (const { id, text, error } of engine.generate(rows, { maxNewTokens: 8, signal: stopping })) {
    if (error) throw error;
    if (isRight(text, passages[id].word)) right++;
  }
  return right;
}

async function measure({ name, baseline, options, weightBits, cacheBits }, model, tokens, passages) {
  const { Engine } = await import('../dist/index.js');
  const start = performance.now();
  const engine = await Engine.open({ model, signal: stopping, ...options });
  try {
    const {
      tokens: scored,
      negativeLogLikelihood,
      perplexity,
    } = await engine.perplexity(tokens, {
      window: number('window', 2),
      promptTokens: number('prompt-tokens'),
      signal: stopping,
    });
    const rightWords = await countRight(engine, passages);
    const seconds = (performance.now() - start) / 1000;
    process.stderr.write(
      `${name}: ${perplexity.toFixed(3)}, ${rightWords} of ${passages.length} words (${seconds.toFixed(0)} s)\n`,
    );
    return {
      name,
      baseline,
      options,
      weightBits: weightBits ?? (await fileBits(model)),
      cacheBits,
      scored,
      negativeLogLikelihood,
      perplexity,
      rightWords,
      words: passages.length,
      seconds,
    };
  } finally {
    await engine.close();
  }
}

/** A peer of vLLM's on the same windows of tokens. It guesses no words. */
function measurePeer({ eightBits, dtype, ...setting }, tokens) {
  const start = performance.now();
  const folder = hfFolder(values.model, values.vllm);
  const window = number('window', 2);
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-accuracy-'));
  const [job, out] = ['job.json', 'out.json'].map((name) => join(scratch, name));
  try {
    const starts = Array.from({ length: Math.ceil(tokens.length / window) }, (_, at) => at * window);
    writeFileSync(
      job,
      JSON.stringify({
        hfFolder: eightBits ? w8a8Folder(folder, values.vllm) : folder,
        dtype,
        threads: availableParallelism(),
        windows: starts.map((at) => tokens.slice(at, at + window)),
        promptTokens: number('prompt-tokens'),
      }),
    );
    const script = fileURLToPath(new URL('accuracy/perplexityVllm.py', import.meta.url));
    execFileSync(values.vllm, [script, job, out], { stdio: ['ignore', 'ignore', 'inherit'] });
    const { scored, negativeLogLikelihood, version } = JSON.parse(readFileSync(out, 'utf8'));
    const perplexity = Math.exp(negativeLogLikelihood / scored);
    process.stderr.write(`${setting.name}: ${perplexity.toFixed(3)}\n`);
    const seconds = (performance.now() - start) / 1000;
    return { ...setting, version, scored, negativeLogLikelihood, perplexity, seconds };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function main() {
  if (values.model === undefined) fail(USAGE);
  const words = values.only?.split(',').map((each) => each.trim());
  const settings = SETTINGS.filter(({ name }) => words === undefined || words.some((each) => name.includes(each)));
  const models = { file: values.model };
  if (settings.some(({ model }) => model === 'f16')) models.f16 = halfPrecisionModel();
  const tokens = await textOf(values.model, number('tokens', 2));
  const passages = lastWords(mobyDickWords(), number('passages'));
  const results = [];
  for (const setting of settings) results.push(await measure(setting, models[setting.model], tokens, passages));
  if (values.vllm !== undefined) for (const peer of PEERS) results.push(measurePeer(peer, tokens));
  const [window, prompt] = [number('window', 2), number('prompt-tokens')];
  const document = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(availableParallelism()),
    model: basename(values.model),
    settings: { tokens: tokens.length, window, promptTokens: prompt, passages: passages.length },
    results,
  };
  const table = accuracyTable(results);
  if (values.write)
    rewriteTable(
      `accuracy ${document.model}`,
      [`${document.date}, ${machineInWords(document.machine)}:`, '', ...table].join('\n'),
    );
  const text = [
    `# What precision costs, ${document.model}`,
    '',
    `${document.date}. ${machineInWords(document.machine)}. Perplexity on the first ${tokens.length} tokens of Moby-Dick, in windows of ${window} that do not overlap;`,
    `the first ${prompt} tokens of each are its prompt, the other ${results[0].scored} in all are scored, as if they had been generated one by one.`,
    `Last words: of ${passages.length} passages of 300 words each of the same book, as LAMBADA has them: the next word, of five letters or more, ends a sentence`,
    `and was said before in the passage; right is what the model goes on with, greedily. One of ${passages.length} is ${(100 / passages.length).toFixed(2)}%.`,
    '',
    ...table,
    '',
    "Bits a weight: of the layers' matrices; with compressed weights embeddings and head have 8.5. The 16-bit weights are those of the file, dequantised",
    '(bench/models/requantise.py): from a 4-bit file, what is rounded to 4 bits again is rounded twice.',
    '10% sparse attention (FlexGen, section 4.2): a generated token takes the values of the tenth of the tokens before it whose keys score highest; prompts are dense,',
    'as in the paper, so that the first token of a last word does not feel it. Keys are all read, so the cache has as many bits.',
    'Keys let go (StreamingLLM): whole pages of 32 tokens between the first and the last ones.',
    '',
  ].join('\n');
  writeResults(values.output, `accuracy-${document.date}-${document.model.replace(/\.gguf$/, '')}`, document, text);
}

await runMain(main, stopping);
