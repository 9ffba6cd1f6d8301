import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from '@jest/globals';
import { serve, type SpillwayServer } from '../../../src/serve/serve.js';
import type { ServeOptions } from '../../../src/serve/ServeOptions.js';
import { StubEngine, type StubOptions } from './StubEngine.js';

export interface StubServer extends SpillwayServer {
  readonly engine: StubEngine;
  readonly data: string;
  /** What was said. */
  readonly said: readonly string[];
  post(path: string, body: unknown, more?: RequestInit): Promise<Response>;
  json(path: string, init?: RequestInit): Promise<Record<string, never>>;
}

const open: SpillwayServer[] = [];
const folders: string[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

export function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-serve-'));
  folders.push(folder);
  return folder;
}

/** A server of a stub that is called `stub`, on a free port; closed after the test. */
export async function stubServer(
  options: Partial<ServeOptions> & { readonly stub?: StubOptions } = {},
): Promise<StubServer> {
  const { stub, data = dataFolder(), ...more } = options;
  const engine = new StubEngine(stub);
  const said: string[] = [];
  const server = await serve({
    models: [{ name: 'stub', open: async () => engine }],
    port: 0,
    drainSeconds: 0.2,
    onMessage: (message) => said.push(message),
    ...more,
    data,
  });
  open.push(server);
  return Object.assign(server, {
    engine,
    data,
    said,
    post: (path: string, body: unknown, init: RequestInit = {}) =>
      fetch(server.url + path, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        ...init,
        headers: { 'content-type': 'application/json', ...init.headers },
      }),
    json: async (path: string, init?: RequestInit) =>
      (await (await fetch(server.url + path, init)).json()) as Record<string, never>,
  });
}

/** The data of server-sent events. */
export async function eventsOf(response: Response): Promise<readonly string[]> {
  const text = await response.text();
  return text.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? [event.slice(6)] : []));
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let waited = 0; !(await condition()); waited += 5) {
    if (waited > 300_000) throw new Error('it did not come');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
