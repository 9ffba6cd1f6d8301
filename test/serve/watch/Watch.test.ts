import { request } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import { JobWatch } from '../../../src/serve/watch/JobWatch.js';
import { Watch } from '../../../src/serve/watch/Watch.js';
import type { WatchEvent, WatchSource } from '../../../src/serve/watch/WatchSource.js';
import { stubServer } from '../support/served.js';
import { watchedEngine } from '../support/watchedEngine.js';

const rows = { done: 0, failed: 0, total: undefined as number | undefined };
const source: WatchSource = {
  title: 'a job',
  facts: () => [],
  plan: () => [],
  rows: () => ({ ...rows }),
  tokens: () => ({ prompt: 0, generated: 0 }),
  engines: () => new Map(),
};

const open: { close(state: 'stopped'): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((watch) => watch.close('stopped')));
});
async function jobWatch(apiKey?: string): Promise<JobWatch> {
  const watch = await JobWatch.open({ title: 'a job', facts: [], port: 0, ...(apiKey !== undefined && { apiKey }) });
  open.push(watch);
  return watch;
}

/** Of a request with whatever headers. */
const statusOf = (url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<number> =>
  new Promise((resolve, reject) => {
    const asked = request(url, { headers, method }, (response) => {
      resolve(response.statusCode ?? 0);
      response.destroy();
    });
    asked.on('error', reject).end();
  });

describe('what is seen of a job', () => {
  test('keeps five minutes, whoever takes them, and fifty rows with an error, cut short', async () => {
    const watch = new Watch(source);
    const ending = new AbortController();
    const events = watch.events(ending.signal);
    watch.sample();
    expect((await events.next()).value).toMatchObject({ state: 'running', about: { title: 'a job' } });
    // A watcher that takes nothing holds nothing, and is told what is still known.
    for (let second = 0; second < 2000; second++) {
      watch.sample();
      watch.rowFailed({ id: `${second}`.repeat(200), error: { code: `code ${second}`, message: 'm'.repeat(100_000) } });
    }
    const { value } = await events.next();
    const { samples, failed, about } = value as WatchEvent;
    expect(samples).toHaveLength(300);
    expect(about).toBeUndefined();
    expect(failed?.rows).toHaveLength(50);
    expect(failed?.rows[0]?.id).toMatch(/^1999/);
    expect(failed?.counts.length).toBeLessThanOrEqual(51);
    expect(failed?.counts.reduce((sum, [, count]) => sum + count, 0)).toBe(2000);
    expect(JSON.stringify(failed).length).toBeLessThan(50 * 700);
    ending.abort();
    expect((await events.next()).done).toBe(true);
    expect(watch.watchers).toBe(0);
  });

  test('tells each watcher of each second once, and all of them of the end', async () => {
    const watch = new Watch(source);
    watch.sample();
    const seen = [0, 1].map(async () => {
      const told: WatchEvent[] = [];
      for await (const event of watch.events(new AbortController().signal)) told.push(event);
      return told;
    });
    for (let second = 0; second < 5; second++) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      watch.sample();
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
    watch.end('failed', 'no room');
    for (const told of await Promise.all(seen)) {
      const times = told.flatMap(({ samples }) => samples.map(({ at }) => at));
      expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
      expect(times).toHaveLength(7);
      expect(told.at(-1)).toMatchObject({ state: 'failed', reason: 'no room' });
    }
  });

  test('says how long the rest takes, and rates of what there is more of', async () => {
    const watch = new Watch(source);
    Object.assign(rows, { done: 0, failed: 0, total: 100 });
    watch.sample();
    await new Promise((resolve) => setTimeout(resolve, 600));
    Object.assign(rows, { done: 20, failed: 5 });
    watch.sample();
    const { rates, left = 0, seconds } = watch.latest ?? { rates: { rows: 0 }, seconds: 0 };
    expect(rates.rows * seconds).toBeGreaterThan(20);
    expect(left).toBeCloseTo(3 * seconds);
  });
});

describe('the server of a job', () => {
  test('answers this machine alone, and pages of its own', async () => {
    const { url } = await jobWatch();
    for (const path of ['', 'events', 'metrics', 'health']) {
      expect(await statusOf(url + path)).toBe(200);
      expect(await statusOf(url + path, { host: 'evil.example' })).toBe(403);
      expect(await statusOf(url + path, { origin: 'https://evil.example' })).toBe(403);
      expect(await statusOf(url + path, {}, 'POST')).toBe(405);
    }
    expect(await statusOf(`${url}events`, {}, 'HEAD')).toBe(200);
    expect(await statusOf(`${url}../../etc/passwd`)).toBe(404);
    await expect(JobWatch.open({ title: '', facts: [], port: 0, host: '0.0.0.0' })).rejects.toThrow(
      /expected an API key/,
    );
    await expect(JobWatch.open({ title: '', facts: [], port: Number(new URL(url).port) })).rejects.toThrow(
      /where nobody can listen/,
    );
  });

  test.each(['short', 'with a blank in it', 'längerer-schlüssel', ''])(
    'refuses the key %j, as a server does',
    async (apiKey) => {
      await expect(JobWatch.open({ title: '', facts: [], port: 0, apiKey })).rejects.toThrow(
        /apiKey: found a text of \d+ characters, expected 8 to 1024 visible ASCII characters/,
      );
    },
  );

  test('tells nothing without its key', async () => {
    const watch = await jobWatch('correct-horse');
    watch.opened(watchedEngine());
    for (const [path, status] of [
      ['', 200],
      ['health', 200],
      ['events', 401],
      ['metrics', 401],
    ] as const) {
      expect(await statusOf(watch.url + path)).toBe(status);
      expect(await statusOf(watch.url + path, { authorization: 'Bearer correct-horse' })).toBe(200);
    }
    expect(await (await fetch(watch.url)).text()).not.toContain('cpu-compute');
  });

  test('has as many pages as it may, and ends with the job however many there are', async () => {
    const watch = await jobWatch();
    const pages = await Promise.all(Array.from({ length: 32 }, () => fetch(`${watch.url}events`)));
    expect(pages.map(({ status }) => status)).toEqual(Array(32).fill(200));
    expect((await fetch(`${watch.url}events`)).status).toBe(429);
    const texts = pages.map((page) => page.text());
    await watch.close('finished');
    for (const text of await Promise.all(texts)) expect(text).toContain('"state":"finished"');
  });

  test('figures are those of the job', async () => {
    const watch = await jobWatch();
    watch.expects(10, 2);
    watch.opened(watchedEngine());
    watch.answered({ id: 1, usage: { promptTokens: 5, completionTokens: 7 } });
    watch.answered({ id: 'x', error: { code: 'length', message: 'too long' } });
    const text = await (await fetch(`${watch.url}metrics`)).text();
    for (const line of [
      'spillway_rows_total{source="job",outcome="done"} 1',
      'spillway_rows_total{source="job",outcome="failed"} 1',
      'spillway_tokens_total{kind="generated"} 7',
      'spillway_job_rows 10',
      'spillway_job_rows_kept 2',
      'spillway_queue_tasks_total{model="model",queue="cpu-compute"} 100',
      `spillway_memory_capacity_bytes{model="model",tier="cpu"} ${16 * 2 ** 30}`,
      '# TYPE process_cpu_seconds_total counter',
    ])
      expect(text.split('\n')).toContain(line);
  });
});

describe('a server', () => {
  test('shows what it does, and is not held up by who watches', async () => {
    const server = await stubServer({ drainSeconds: 3600 });
    const page = await fetch(`${server.url}/`);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const watching = fetch(`${server.url}/events`).then((response) => response.text());
    const ask = { model: 'stub', prompt: 'hello', max_tokens: 4 };
    await (await server.post('/v1/completions', ask)).text();
    // Where it were waited for who watches, this would take an hour.
    await server.close();
    const last = JSON.parse((await watching).trim().split('\n\n').at(-1)?.slice(6) ?? '{}') as WatchEvent;
    expect(last.state).toBe('stopped');
    expect(last.samples.at(-1)).toMatchObject({ rows: { done: 1, failed: 0 }, tokens: { generated: 4 } });
  });

  test('says nothing of it without its key', async () => {
    const server = await stubServer({ apiKey: 'correct-horse' });
    expect((await fetch(`${server.url}/`)).status).toBe(200);
    expect((await fetch(`${server.url}/events`)).status).toBe(401);
  });
});
