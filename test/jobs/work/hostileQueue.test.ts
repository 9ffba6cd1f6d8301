import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect as connectTo, createServer, type AddressInfo, type Socket } from 'node:net';
import pg from 'pg';
import { openWorkSource } from '../../../src/jobs/work/openWorkSource.js';
import type { WorkSource } from '../../../src/jobs/work/WorkSource.js';
import { manifestOf, openQueue, type OpenQueue, QUEUES } from './support.js';

const [, nats, postgres] = QUEUES;

describe('what others put into a queue: NATS', () => {
  const there = nats?.missing === undefined ? test : test.skip;
  let queue: OpenQueue;
  let connection: NatsConnection;
  beforeAll(async () => {
    if (nats === undefined || nats.missing !== undefined) return;
    queue = await openQueue(nats);
    connection = await connect({ servers: queue.url.slice('nats://'.length) });
  });
  afterAll(async () => {
    if (nats?.missing !== undefined) return;
    await connection.close();
    await queue[Symbol.asyncDispose]();
  });
  const put = async (job: string, key: string, value: string | Uint8Array): Promise<void> => {
    await (await new Kvm(connection).open(`spillway_${job}`)).put(key, value);
  };
  const submitted = async (job: string): Promise<WorkSource> => {
    const source = await queue.source(job);
    await source.submit(manifestOf({ id: '0123456789abcdef', shards: { count: 1, rows: 1 } }));
    return source;
  };

  there('a manifest that is none', async () => {
    const source = await submitted('manifest');
    await put('manifest', 'manifest', '{"format":"spillway-queue","version":2}');
    await expect(source.manifest()).rejects.toThrow('job manifest: manifest.id: found nothing, expected one');
    await put('manifest', 'manifest', new Uint8Array(900_000).fill(255));
    await expect(source.manifest()).rejects.toThrow('expected JSON');
  });

  there('a shard’s state that is none', async () => {
    const source = await submitted('state');
    await put('state', '0123456789abcdef.shard.0', '{"state":"committed","attempt":"../../etc"}');
    await expect(source.shards()).rejects.toThrow('shard 0: found an object with state, attempt, expected its state');
    await expect(source.lease({ worker: 'w' })).rejects.toThrow('shard 0: found an object with state, attempt');
  });

  there('messages that are no shard: told, and taken out, and the job goes on', async () => {
    const source = await submitted('message');
    await (await source.lease({ worker: 'w' }))?.giveBack();
    for (const junk of ['7', '-1', '0x0', '', 'x'.repeat(1e5)]) {
      await jetstream(connection).publish('SPILLWAY_message_0123456789abcdef.junk', junk);
    }
    const told: string[] = [];
    let commits = 0;
    for (let left = true; left;) {
      try {
        const lease = await source.lease({ worker: 'w' });
        if (lease === undefined) left = false;
        else if (await lease.commit()) commits += 1;
      } catch (error) {
        told.push((error as Error).message);
      }
    }
    expect(commits).toBe(1);
    expect(told).toHaveLength(5);
    for (const words of told)
      expect(words).toContain('expected the number of a shard from 0 to 0; it was taken out of the queue');
  });

  there('messages that got lost are put back', async () => {
    const source = await submitted('lost');
    await (await jetstreamManager(connection)).streams.purge('SPILLWAY_lost_0123456789abcdef');
    const lease = await source.lease({ worker: 'w' });
    expect([lease?.shard, await lease?.commit(), await source.lease({ worker: 'w' })]).toEqual([0, true, undefined]);
  });
});

describe('what others put into a queue: Postgres', () => {
  const there = postgres?.missing === undefined ? test : test.skip;

  there('a manifest and states that are none; no row', async () => {
    if (postgres === undefined) return;
    await using queue = await openQueue(postgres);
    const client = new pg.Client({ connectionString: queue.url });
    await client.connect();
    const source = await queue.source('j');
    await source.submit(manifestOf({ shards: { count: 2, rows: 1 } }));
    await client.query(`update spillway_shards set reasons = '{"a":1}' where shard = 0`);
    await expect(source.shards()).rejects.toThrow(
      'shard 0: found an object with shard, state, deliveries, …, expected its state',
    );
    await client.query(`delete from spillway_shards where shard = 0`);
    await expect(source.shards()).rejects.toThrow('shard 1: found');
    await client.query(`update spillway_jobs set manifest = '[]'`);
    await expect(source.manifest()).rejects.toThrow('manifest: found an array of 0, expected an object');
    await client.end();
  });

  there('a connection that the server ends with the very bytes that open it', async () => {
    if (postgres?.url === undefined) return;
    await using queue = await openQueue(postgres);
    const message = (type: string, body: string | Buffer): Buffer => {
      const bytes = Buffer.from(body);
      const head = Buffer.alloc(5, type);
      head.writeInt32BE(4 + bytes.length, 1);
      return Buffer.concat([head, bytes]);
    };
    // It is let in, may ask, and is ended by an administrator.
    const opening = [message('R', Buffer.alloc(4)), message('Z', 'I'), message('E', 'SFATAL\0C57P01\0Mends\0\0')];
    const sockets: Socket[] = [];
    const opened = (socket: Socket): Socket => {
      sockets.push(socket);
      return socket.on('error', () => undefined);
    };
    let connections = 0;
    const between = createServer((from) => {
      opened(from);
      connections += 1;
      if (connections === 2) from.once('data', () => from.end(Buffer.concat(opening)));
      else from.pipe(opened(connectTo(queue.server?.port ?? 0, '127.0.0.1'))).pipe(from);
    });
    between.listen(0, '127.0.0.1');
    await once(between, 'listening');
    {
      await using source = await openWorkSource(postgres.url((between.address() as AddressInfo).port), 'ended');
      sockets[0]?.destroy();
      await source.submit(manifestOf());
      expect(await source.shards()).toHaveLength(3);
    }
    expect(connections).toBeGreaterThan(2);
    between.close();
  });
});
