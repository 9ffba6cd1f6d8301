import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, jest, test } from '@jest/globals';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { openWorkSource } from '../../../src/jobs/work/openWorkSource.js';
import { Forwarder } from '../../support/Forwarder.js';
import { QUEUES } from './support.js';

test.each(['nats://127.0.0.1:9', 'postgres://127.0.0.1:9/db'])(
  '%s is waited for until a signal fires',
  async (queue) => {
    // Without one it is given up after ten seconds, with another error.
    await expect(openWorkSource(queue, 'j', { signal: AbortSignal.timeout(300) })).rejects.toThrow(InterruptedError);
    await expect(openWorkSource(queue, 'j', { signal: 5 as unknown as AbortSignal })).rejects.toThrow(
      new UsageError('signal: found 5, expected an AbortSignal'),
    );
  },
);

describe.each(QUEUES.filter(({ start }) => start !== undefined))('a queue in $name', ({ missing, start, url }) => {
  (missing === undefined ? test : test.skip).each(['is silent', 'is gone'])(
    'that %s after it was reached is waited for until the signal fires',
    async (how) => {
      await using server = await start?.();
      if (server === undefined || url === undefined) throw new Error('no server');
      const between = await Forwarder.open(`127.0.0.1:${server.port}`);
      const stop = new AbortController();
      const address = url(server.port).replace(`127.0.0.1:${server.port}`, between.address);
      const source = await openWorkSource(address, 'j', { signal: stop.signal });
      if (how === 'is silent') between.hold();
      else await between.close();
      const ends = ['manifest', 'shards', 'remove', 'agree', 'lease'] as const;
      const calls = ends.map((name) =>
        expect(name === 'lease' ? source.lease({ worker: 'w' }) : source[name]('{}')).rejects.toThrow(InterruptedError),
      );
      await sleep(200);
      stop.abort();
      await Promise.all(calls);
      await source[Symbol.asyncDispose]();
      if (how === 'is silent') await between.close();
    },
  );

  (missing === undefined ? test : test.skip)(
    'is found again after a restart by a worker whose clock was set back',
    async () => {
      await using server = await start?.();
      if (server === undefined || url === undefined) throw new Error('no server');
      await using source = await openWorkSource(url(server.port), 'j');
      await expect(source.manifest()).rejects.toThrow('found no such job');
      const now = Date.now;
      const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() - 86_400_000);
      try {
        await server.end('SIGKILL');
        await server.begin();
        // It would be waited for for five minutes.
        await expect(source.manifest()).rejects.toThrow('found no such job');
      } finally {
        clock.mockRestore();
      }
    },
  );
});
