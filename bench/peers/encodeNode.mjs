// One run of an engine of Node that embeds texts, for bench/encoders.mjs:
//   node encodeNode.mjs '{"peer": ..., "model": FOLDER, "texts": FILE, "out": FILE, "batchSize": N, "threads": N, "cache": FOLDER}'
// `peer`: spillway and spillway-float32; onnxruntime-node, of the file that encode.py has exported, and node-llama-cpp, of
// `gguf`, where these packages are installed; llama-server, a program of llama.cpp's (`server`), of `gguf`. `options` are
// the engine's own of spillway, which prints its run's statistics, too.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Engine } from '../../dist/index.js';

const job = JSON.parse(process.argv[2]);
const texts = JSON.parse(readFileSync(job.texts, 'utf8'));
/** Of spillway's last run. */
let stats;

async function spillway() {
  const precision = job.peer === 'spillway' ? 'default' : 'float32';
  const engine = await Engine.open({ model: job.model, precision, threads: job.threads, ...job.options });
  return async (some) => {
    const made = [];
    const rows = some.map((prompt) => ({ prompt }));
    const results = engine.embed(rows, { truncate: 'tail' });
    for await (const { embedding, error } of results) {
      if (error) throw new Error(error.message);
      made.push(embedding);
    }
    stats = await results.stats;
    return made;
  };
}

/** Sorted by length, as encode.py does it, with this package's tokenizer. */
async function onnxruntimeNode() {
  const ort = await import('onnxruntime-node');
  const session = await (ort.InferenceSession ?? ort.default.InferenceSession).create(
    join(job.cache, `${basename(job.model)}.onnx`),
    { intraOpNumThreads: job.threads },
  );
  const Tensor = ort.Tensor ?? ort.default.Tensor;
  const engine = await Engine.open({ model: job.model, threads: 1 });
  const longest = JSON.parse(readFileSync(join(job.model, 'sentence_bert_config.json'), 'utf8')).max_seq_length;
  const { tokenizer } = engine;
  const idsOf = (text) => {
    const ids = tokenizer.encode(text);
    return ids.length <= longest ? ids : [...ids.slice(0, longest - 1), ids.at(-1)];
  };
  return async (some) => {
    const made = [];
    const order = [...some.keys()].sort((a, b) => some[a].length - some[b].length);
    for (let first = 0; first < order.length; first += job.batchSize) {
      const batch = order.slice(first, first + job.batchSize);
      const ids = batch.map((at) => idsOf(some[at]));
      const width = Math.max(...ids.map(({ length }) => length));
      const of = (value) =>
        new Tensor(
          'int64',
          BigInt64Array.from(ids.flatMap((row) => Array.from({ length: width }, (_, at) => BigInt(value(row, at))))),
          [ids.length, width],
        );
      const { states } = await session.run({
        input_ids: of((row, at) => row[at] ?? 0),
        attention_mask: of((row, at) => (at < row.length ? 1 : 0)),
        token_type_ids: of(() => 0),
      });
      const size = states.dims[2];
      batch.forEach((at, row) => {
        const sum = new Float32Array(size);
        for (let token = 0; token < ids[row].length; token++)
          for (let c = 0; c < size; c++) sum[c] += states.data[(row * width + token) * size + c];
        const length = Math.hypot(...sum);
        made[at] = sum.map((each) => each / length);
      });
    }
    return made;
  };
}

async function llamaCpp() {
  const { getLlama } = await import('node-llama-cpp');
  const llama = await getLlama({ gpu: false, maxThreads: job.threads });
  const model = await llama.loadModel({ modelPath: job.gguf });
  const context = await model.createEmbeddingContext({ threads: job.threads });
  return async (some) => {
    const made = [];
    for (const text of some) {
      const { vector } = await context.getEmbeddingFor(text);
      const length = Math.hypot(...vector);
      made.push(vector.map((each) => each / length));
    }
    return made;
  };
}

/** Texts of one batch at a time, as tokens, so that it need not cut them; the server puts them together as it likes. */
async function llamaServer() {
  const port = 18_431;
  const room = '8192';
  const args = ['-m', job.gguf, '--embeddings', '--pooling', 'mean', '--port', `${port}`, '-t', `${job.threads}`, '-tb'];
  const server = spawn(
    job.server,
    [...args, `${job.threads}`, '-c', room, '-b', room, '-ub', room, '-np', '32', '-ngl', '0'],
    { stdio: 'ignore' },
  );
  process.on('exit', () => server.kill());
  const url = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${url}/health`).then(
    ({ ok }) => ok,
    () => false,
  ))) {
    if (server.exitCode !== null) throw new Error(`${job.server} ended with ${server.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const engine = await Engine.open({ model: job.model, threads: 1 });
  const longest = JSON.parse(readFileSync(join(job.model, 'sentence_bert_config.json'), 'utf8')).max_seq_length;
  return async (some) => {
    const order = [...some.keys()].sort((a, b) => some[a].length - some[b].length);
    const made = [];
    for (let first = 0; first < order.length; first += 32) {
      const batch = order.slice(first, first + 32);
      const input = batch.map((at) => {
        const ids = engine.tokenizer.encode(some[at]);
        return ids.length <= longest ? ids : [...ids.slice(0, longest - 1), ids.at(-1)];
      });
      const response = await fetch(`${url}/v1/embeddings`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ input }),
      });
      if (!response.ok) throw new Error(await response.text());
      for (const { index, embedding } of (await response.json()).data) made[batch[index]] = embedding;
    }
    return made;
  };
}

const MAKERS = {
  spillway,
  'spillway-float32': spillway,
  'onnxruntime-node': onnxruntimeNode,
  'node-llama-cpp': llamaCpp,
  'llama-server': llamaServer,
};
const opening = performance.now();
const encode = await MAKERS[job.peer]();
await encode(texts.slice(0, 4));
const start = performance.now();
const usage = process.cpuUsage();
const embeddings = await encode(texts);
const end = performance.now();
const { user, system } = process.cpuUsage(usage);
writeFileSync(job.out, new Uint8Array(Float32Array.from(embeddings.flatMap((each) => [...each])).buffer));
process.stdout.write(
  `${JSON.stringify({
    seconds: (end - start) / 1000,
    openSeconds: (start - opening) / 1000,
    cpuSeconds: (user + system) / 1e6,
    stats,
  })}\n`,
);
process.exit();
