import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, TINY_MODEL, until } from './support.js';

const path = temporaryFolder();
const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

const ONE_BY_ONE = ['--policy', 'default', '--threads', '1', '--batch-size', '1', '--ignore-eos'];
const REQUESTS = Array.from({ length: 400 }, (_, at) =>
  JSON.stringify({
    custom_id: `r${at}`,
    method: 'POST',
    url: '/v1/completions',
    body: { prompt: [1 + (at % 200), 5, 9], max_tokens: 1 + (at % 30), temperature: 1, seed: at },
  }).concat('\n'),
).join('');

async function server(...flags: string[]): Promise<{ child: ChildProcess; url: string; lines: string }> {
  const child = startCli(['serve', '--model', TINY_MODEL, '--port', '0', ...ONE_BY_ONE, ...flags]);
  started.push(child);
  let [said, wrong] = ['', ''];
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (wrong += text.toString()));
  await until(() => said.includes('\n') || child.exitCode !== null);
  if (!said.includes('\n')) throw new Error(wrong);
  return { child, url: (JSON.parse(said) as { url: string }).url, lines: said };
}

test('it says where it listens, answers, and ends well when it is told to', async () => {
  const { child, url, lines } = await server('--data', path('one'));
  expect(lines).toMatch(/^\{"url":"http:\/\/127\.0\.0\.1:\d+"\}\n$/);
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'llama-Q8_0', prompt: [1, 5, 9], max_tokens: 3, logprobs: 1 }),
  });
  expect(await response.json()).toMatchObject({
    model: 'llama-Q8_0',
    usage: { prompt_tokens: 3, completion_tokens: 3 },
  });
  const ended = resultOf(child);
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0 });
});

test('it needs no standard output', async () => {
  const child = spawn(
    process.execPath,
    [built('cli/main.js'), 'serve', '--model', TINY_MODEL, '--port', '0', '--data', path('mute')],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  started.push(child);
  let said = '';
  child.stderr.on('data', (text: Buffer) => (said += text.toString()));
  await until(() => said.includes('http://') || child.exitCode !== null);
  const [url = ''] = /http:\/\/[\d.:]+/.exec(said) ?? [];
  expect((await fetch(`${url}/health`)).status).toBe(200);
});

test('a batch of a server that was killed goes on with the next one, to the output of `generate`', async () => {
  writeFileSync(path('requests.jsonl'), REQUESTS);
  const alone = ['generate', '--model', TINY_MODEL, '--input', path('requests.jsonl'), '--output', path('alone.jsonl')];
  expect(await runCli([...alone, ...ONE_BY_ONE])).toMatchObject({ code: 0 });
  const data = ['--data', path('killed')];
  let { child, url } = await server(...data);
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([REQUESTS]), 'requests.jsonl');
  const { id: input } = (await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json()) as {
    id: string;
  };
  const made = await fetch(`${url}/v1/batches`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: input, endpoint: '/v1/completions', completion_window: '24h' }),
  });
  const { id } = (await made.json()) as { id: string };
  const look = async (): Promise<{ status: string; output_file_id: string; request_counts: { completed: number } }> =>
    (await (await fetch(`${url}/v1/batches/${id}`)).json()) as never;
  for (let kills = 0; kills < 2; kills++) {
    const before = (await look()).request_counts.completed;
    for (;;) {
      const { status, request_counts: counts } = await look();
      if (counts.completed > before + 20 || status === 'completed') break;
    }
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('close', resolve));
    ({ child, url } = await server(...data));
  }
  while ((await look()).status !== 'completed') await new Promise((resolve) => setTimeout(resolve, 20));
  const content = await fetch(`${url}/v1/files/${(await look()).output_file_id}/content`);
  expect(await content.text()).toBe(readFileSync(path('alone.jsonl'), 'utf8'));
});

test.each([
  [['--host', '0.0.0.0'], 1, /--host: found 0\.0\.0\.0.*--api-key-file/s],
  [['--model', '/nowhere.gguf'], 2, /nowhere\.gguf/],
  [['--port', '70000'], 1, /--port/],
  [['--stall-seconds', '0'], 1, /--stall-seconds/],
])('%j is refused with exit code %d', async (flags, code, words) => {
  const ended = await runCli(['serve', '--model', TINY_MODEL, '--port', '0', '--data', path('refused'), ...flags]);
  expect(ended.code).toBe(code);
  expect(ended.stderr).toMatch(words);
});
