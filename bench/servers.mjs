// Spillway's server beside llama.cpp's (of llama-cpp-python) and vLLM's, under the same load: clients that stream.
// Throughput, and how long a first token and a whole answer take. Each server runs alone, one after another.
//   python3 -m venv V && V/bin/pip install 'llama-cpp-python[server]' vllm
//   node bench/servers.mjs --model MODEL.gguf --llama V/bin/python [--vllm V/bin/vllm --vllm-model FOLDER] [--clients 32]
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const MAIN = new URL('../dist/cli/main.js', import.meta.url).pathname;
const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    llama: { type: 'string' },
    vllm: { type: 'string' },
    'vllm-model': { type: 'string' },
    clients: { type: 'string', default: '32' },
    seconds: { type: 'string', default: '120' },
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

/** What is started, and by which name it calls the model. */
const SERVERS = {
  spillway: (port, data) => [
    process.execPath,
    [MAIN, 'serve', '--model', values.model, '--port', port, '--data', data],
  ],
  ...(values.llama && {
    'llama-cpp-python': (port) => [
      values.llama,
      ['-m', 'llama_cpp.server', '--model', values.model, '--host', '127.0.0.1', '--port', port, '--n_ctx', '4096'],
    ],
  }),
  ...(values.vllm && {
    vllm: (port) => [
      values.vllm,
      ['serve', values['vllm-model'] ?? values.model, '--host', '127.0.0.1', '--port', port, '--max-model-len', '4096'],
    ],
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

/** One streamed answer: its pieces are counted as tokens. */
async function stream(url, model, words) {
  const begun = performance.now();
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, max_tokens: tokens, temperature: 0, prompt: words }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  let [first, count, rest] = [undefined, 0, ''];
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    rest += part;
    for (let at = rest.indexOf('\n'); at >= 0; at = rest.indexOf('\n')) {
      const line = rest.slice(0, at);
      rest = rest.slice(at + 1);
      if (!line.startsWith('data: {')) continue;
      const text = JSON.parse(line.slice(6)).choices?.[0]?.text ?? '';
      if (text === '') continue;
      first ??= performance.now() - begun;
      count += 1;
    }
  }
  return { first: first ?? NaN, whole: performance.now() - begun, count };
}

const at = (list, share) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];

async function measure(name) {
  const [port, data] = [String(await freePort()), mkdtempSync(join(tmpdir(), 'spillway-servers-'))];
  const [program, args] = SERVERS[name](port, data);
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (said = (said + text).slice(-4000)));
  const ended = new Promise((resolve) => child.once('close', resolve));
  const url = `http://127.0.0.1:${port}`;
  try {
    const model = await Promise.race([
      modelOf(url),
      ended.then((code) => Promise.reject(new Error(`${name} ended with ${code}: ${said}`))),
    ]);
    await stream(url, model, 'Once upon a time');
    const answers = [];
    const begun = performance.now();
    await Promise.all(
      Array.from({ length: clients }, async (_, client) => {
        for (let turn = 0; performance.now() - begun < seconds * 1000; turn++)
          answers.push(await stream(url, model, `Client ${client} asks for the ${turn}th time about the sea:`));
      }),
    );
    const wall = (performance.now() - begun) / 1000;
    return {
      name,
      'tokens/s': Math.round(answers.reduce((sum, { count }) => sum + count, 0) / wall),
      answers: answers.length,
      'first token ms p50': Math.round(
        at(
          answers.map(({ first }) => first),
          0.5,
        ),
      ),
      'first token ms p99': Math.round(
        at(
          answers.map(({ first }) => first),
          0.99,
        ),
      ),
      'answer ms p50': Math.round(
        at(
          answers.map(({ whole }) => whole),
          0.5,
        ),
      ),
    };
  } finally {
    child.kill('SIGTERM');
    await Promise.race([ended, sleep(15_000).then(() => child.kill('SIGKILL'))]);
    rmSync(data, { recursive: true, force: true });
  }
}

const results = [];
for (const name of Object.keys(SERVERS)) results.push(await measure(name));
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
else console.table(results);
