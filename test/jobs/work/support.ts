import { randomBytes } from 'node:crypto';
import type { JobManifest } from '../../../src/jobs/work/JobManifest.js';
import { memoryWork } from '../../../src/jobs/work/memoryWork.js';
import { openWorkSource } from '../../../src/jobs/work/openWorkSource.js';
import type { WorkSource } from '../../../src/jobs/work/WorkSource.js';
import {
  type DatabaseServer,
  natsServer,
  natsServerPath,
  postgresFolder,
  postgresServer,
} from '../../support/databaseServers.js';

/** A kind of queue that the tests are run with. */
export interface QueueKind {
  readonly name: string;
  /** Why it cannot be tried here; undefined where it can. */
  readonly missing: string | undefined;
  /** Of those that are a server. */
  start?(): Promise<DatabaseServer>;
  url?(port: number): string;
}

const postgres = postgresFolder();
const nats = natsServerPath();

export const QUEUES: readonly QueueKind[] = [
  { name: 'memory', missing: undefined },
  {
    name: 'nats',
    missing: nats === undefined ? 'no nats-server is installed' : undefined,
    start: () => natsServer(nats ?? ''),
    url: (port) => `nats://127.0.0.1:${port}`,
  },
  {
    name: 'postgres',
    missing: postgres === undefined ? 'no Postgres is installed' : undefined,
    start: () => postgresServer(postgres ?? ''),
    url: (port) => `postgres://spillway@127.0.0.1:${port}/postgres`,
  },
];

/** A queue that is there, of which several ends can be opened. */
export interface OpenQueue extends AsyncDisposable {
  readonly server: DatabaseServer | undefined;
  readonly url: string;
  source(job: string): Promise<WorkSource>;
}

export async function openQueue({ start, url }: QueueKind): Promise<OpenQueue> {
  const server = await start?.();
  const ofMemory = new Map<string, WorkSource>();
  const sources: WorkSource[] = [];
  const address = server && url ? url(server.port) : '';
  return {
    server,
    url: address,
    source: async (job) => {
      if (server === undefined) {
        const there = ofMemory.get(job) ?? memoryWork();
        ofMemory.set(job, there);
        return there;
      }
      const source = await openWorkSource(address, job);
      sources.push(source);
      return source;
    },
    [Symbol.asyncDispose]: async () => {
      for (const source of sources) await source[Symbol.asyncDispose]();
      await server?.[Symbol.asyncDispose]();
    },
  };
}

export function manifestOf(more: Partial<JobManifest> = {}): JobManifest {
  return {
    format: 'spillway-queue',
    version: 2,
    id: randomBytes(8).toString('hex'),
    input: ['/data/in.jsonl'],
    fingerprint: { kind: 'file', bytes: 3, sha256: 'a'.repeat(64) },
    rows: 3,
    parts: '/data/out.jsonl.parts',
    output: '/data/out.jsonl',
    shards: { count: 3, rows: 1 },
    maxDeliver: 3,
    leaseSeconds: 60,
    options: {},
    engine: {},
    ...more,
  };
}
