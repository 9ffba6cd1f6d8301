// Servers of this checkout in processes of their own, and what is done to them.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { MAIN, ROOT } from './commandLine.mjs';

const STUB = new URL('stubServer.mjs', import.meta.url).pathname;
const PROBE = new URL('healthProbe.mjs', import.meta.url).pathname;
const START_SECONDS = 300;

/**
 * Starts a server, and resolves once it says where it listens.
 * @param args flags of `spillway serve`, or, with `stub`, the options of its stub as JSON
 */
export async function startServer(args, { stub = false, env = {} } = {}) {
  const child = spawn(process.execPath, stub ? [STUB, ...args] : [MAIN, 'serve', ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'])
    child[name].setEncoding('utf8').on('data', (text) => {
      said[name] = (said[name] + text).slice(-20_000);
    });
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal, ...said })));
  const url = await new Promise((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error(`no server within ${START_SECONDS} s: ${said.stderr}`)),
      START_SECONDS * 1000,
    );
    child.stdout.on('data', () => {
      if (!said.stdout.includes('\n')) return;
      clearTimeout(late);
      resolve(JSON.parse(said.stdout.split('\n')[0]).url);
    });
    void ended.then(() => {
      clearTimeout(late);
      reject(new Error(`the server ended: ${said.stderr}`));
    });
  });
  return { child, url, port: Number(new URL(url).port), ended, said };
}

/**
 * Begins to ask for `/health`, from another process: this one has clients to see to.
 * @returns stops it, and resolves to the milliseconds of all answers, and how many failed
 */
export function probeHealth(url, pause = 100) {
  const child = spawn(process.execPath, [PROBE, url, String(pause)], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part) => (text += part));
  const ended = new Promise((resolve) => child.once('close', resolve));
  return async () => {
    child.stdin.end();
    await ended;
    return JSON.parse(text);
  };
}

/** Resident memory of a process, in MiB. */
export function residentMib({ pid }) {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib ?? 0) / 1024);
}

export async function sendBatch(url, text, endpoint = '/v1/chat/completions') {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([text]), 'requests.jsonl');
  const file = await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json();
  const response = await fetch(`${url}/v1/batches`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: file.id, endpoint, completion_window: '24h' }),
  });
  return (await response.json()).id;
}

export async function batchOf(url, id) {
  return (await fetch(`${url}/v1/batches/${id}`)).json();
}

export async function outputOf(url, { output_file_id: id }) {
  return id === null ? '' : (await fetch(`${url}/v1/files/${id}/content`)).text();
}

/** Requests of a batch, all different. */
export function batchText(rows, model, maxTokens) {
  return Array.from({ length: rows }, (_, at) =>
    JSON.stringify({
      custom_id: `r${at}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: {
        model,
        max_tokens: maxTokens,
        messages: [{ role: 'user', content: `Say something about the number ${at}.` }],
      },
    }).concat('\n'),
  ).join('');
}

/** The value at a share of a list. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
