import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { WatchEvent } from '../../src/serve/watch/WatchSource.js';
import { resultOf, runCli, startCli, TINY_MODEL } from './support.js';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-watch-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const args = (...more: string[]): string[] => [
  'generate',
  ...['--model', TINY_MODEL, '--input', join(folder, 'in.jsonl'), '--output', join(folder, 'out.jsonl')],
  ...['--policy', 'default', '--ignore-eos', '--watch', '0', ...more],
];

test('a job is watched while it runs, to its end: page, events, figures; without a look at it nothing changes', async () => {
  const rows = Array.from({ length: 1200 }, (_, at) => ({ id: `row ${at}`, tokens: [1, 2 + (at % 200), at % 97] }));
  const bad = { id: '<b>bad</b>', tokens: [] };
  writeFileSync(join(folder, 'in.jsonl'), [...rows, bad].map((row) => `${JSON.stringify(row)}\n`).join(''));
  const child = startCli(args('--max-new-tokens', '100', '--batch-size', '8', '--batches', '1'));
  const ended = resultOf(child);
  const url = await new Promise<string>((resolve) => {
    let said = '';
    child.stderr?.on('data', (text: string) => {
      said += text;
      const [, at] = /^watch: (http:\S+)$/m.exec(said) ?? [];
      if (at !== undefined) resolve(at);
    });
  });
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
  const page = await fetch(url);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(await page.text()).toContain('<h1 id="title">');
  // Pages of others, and names that are somebody else's, get nothing.
  expect((await fetch(`${url}events`, { headers: { origin: 'https://evil.example' } })).status).toBe(403);
  const events: WatchEvent[] = [];
  let metrics = '';
  let rest = '';
  for await (const part of (await fetch(`${url}events`)).body?.pipeThrough(new TextDecoderStream()) ?? []) {
    rest += part;
    for (let at = rest.indexOf('\n\n'); at >= 0; at = rest.indexOf('\n\n')) {
      if (rest.startsWith('data: ')) events.push(JSON.parse(rest.slice(6, at)) as WatchEvent);
      rest = rest.slice(at + 2);
    }
    if ((events.at(-1)?.samples.at(-1)?.tokens.generated ?? 0) > 0 && events.at(-1)?.state === 'running')
      metrics = await fetch(`${url}metrics`).then(
        (response) => response.text(),
        () => metrics,
      );
  }
  const { code, stderr } = await ended;
  expect([code, stderr]).toEqual([4, expect.stringContaining('1201 rows (1 with an error')]);
  const last = events.at(-1);
  expect(last?.state).toBe('finished');
  expect(last?.samples.at(-1)).toMatchObject({ rows: { done: 1200, failed: 1, total: 1201, kept: 0 } });
  expect(last?.samples.at(-1)?.tokens.generated).toBeGreaterThanOrEqual(120_000);
  expect(last?.samples.at(-1)?.memory.map(({ name }) => name)).toEqual(['cpu']);
  const failed = events.flatMap((event) => event.failed?.rows ?? []);
  expect(failed.at(-1)).toMatchObject({ id: '<b>bad</b>', code: expect.any(String) });
  expect(events[0]?.about?.facts).toContainEqual(['Input', join(folder, 'in.jsonl')]);
  expect(events.flatMap(({ stretches }) => stretches.map(([queue, name]) => `${queue} ${name}`))).toContain(
    'cpu-compute compute',
  );
  expect(metrics).toMatch(/^spillway_rows_total\{source="job",outcome="done"\} \d+$/m);
  expect(metrics).toMatch(/^spillway_queue_busy_seconds_total\{model=".*",queue="cpu-compute"\} \d/m);
  expect(metrics).toMatch(/^spillway_memory_capacity_bytes\{model=".*",tier="cpu"\} \d+$/m);
  expect(metrics).toMatch(/^spillway_job_rows 1201$/m);
  const watched = readFileSync(join(folder, 'out.jsonl'), 'utf8');
  const alone = await runCli([
    ...args('--max-new-tokens', '100', '--overwrite').filter((arg) => arg !== '--watch' && arg !== '0'),
  ]);
  expect(alone.code).toBe(4);
  expect(readFileSync(join(folder, 'out.jsonl'), 'utf8')).toBe(watched);
});

test('what is no address, or open to strangers without a key, is refused before anything is read', async () => {
  writeFileSync(join(folder, 'in.jsonl'), '{"tokens":[1,2]}\n');
  const base = args().slice(0, -1);
  for (const [address, message] of [
    ['70000', /--watch: found "70000", expected a port from 0 to 65535, or HOST:PORT/],
    ['here', /--watch: found "here"/],
    ['0.0.0.0:0', /found 0\.0\.0\.0, which others than this machine may reach, expected an API key/],
  ] as const) {
    const { code, stderr } = await runCli([...base, address], '', { SPILLWAY_API_KEY: '' });
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
  }
});
