import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { jobStatus } from '../../../src/jobs/work/jobStatus.js';
import { rowsOfShard } from '../../../src/jobs/shards/Shard.js';
import type { Lease, WorkSource } from '../../../src/jobs/work/WorkSource.js';
import { manifestOf, openQueue, type OpenQueue, QUEUES } from './support.js';

/** The shortest lease: of tests that let one end. */
const SHORT_SECONDS = 1;
/** Of tests in which one must not end, however busy the machine is. */
const LONGER_SECONDS = 4;

/** Rows of a shard of the manifest that the tests submit. */
const rowsOf = (rows: number, index: number): number => rowsOfShard(rows, { index, ...manifestOf().shards });

describe.each(QUEUES)('a queue in $name', (kind) => {
  const there = kind.missing === undefined ? test : test.skip;
  let queue: OpenQueue;
  let jobs = 0;
  const job = (): string => `job_${(jobs += 1)}`;
  beforeAll(async () => {
    if (kind.missing === undefined) queue = await openQueue(kind);
  });
  afterAll(async () => {
    if (kind.missing === undefined) await queue[Symbol.asyncDispose]();
  });
  const lease = async (source: WorkSource, worker = 'w'): Promise<Lease> => {
    const taken = await source.lease({ worker });
    if (taken === undefined) throw new Error('nothing was left');
    return taken;
  };

  there('each shard is leased once, and nothing is left once all are committed', async () => {
    const name = job();
    const [one, other] = [await queue.source(name), await queue.source(name)];
    const manifest = manifestOf();
    await one.submit(manifest);
    expect(await other.manifest()).toEqual(manifest);
    const leases = [await lease(one, 'one'), await lease(other, 'other'), await lease(one, 'one')];
    expect(leases.map(({ shard }) => shard).sort()).toEqual([0, 1, 2]);
    expect(new Set(leases.map(({ attempt }) => attempt)).size).toBe(3);
    for (const { attempt, delivery } of leases) {
      expect(attempt).toMatch(/^[0-9a-f]{16}$/);
      expect(delivery).toBe(1);
    }
    expect((await other.shards()).map(({ state, deliveries }) => [state, deliveries])).toEqual(
      Array(3).fill(['leased', 1]),
    );
    for (const each of leases) expect([await each.renew(), await each.commit()]).toEqual([true, true]);
    expect(await other.lease({ worker: 'other' })).toBeUndefined();
    const states = await one.shards();
    expect(states.map(({ state }) => state)).toEqual(['committed', 'committed', 'committed']);
    for (const { shard, attempt } of leases) expect(states[shard]?.attempt).toBe(attempt);
  });

  there('a job is there once; it can be taken away and submitted anew', async () => {
    const name = job();
    const source = await queue.source(name);
    await expect(source.manifest()).rejects.toThrow(/found no (such )?job/);
    await source.submit(manifestOf());
    await expect((await queue.source(name)).submit(manifestOf())).rejects.toThrow('`overwrite` replaces it');
    await (await lease(source)).commit();
    await source.remove();
    await expect(source.manifest()).rejects.toThrow(/found no (such )?job/);
    const again = manifestOf({ shards: { count: 1, rows: 1 } });
    await source.submit(again);
    expect(await source.manifest()).toEqual(again);
    expect(await source.shards()).toEqual([{ shard: 0, state: 'open', deliveries: 0, reasons: [] }]);
  });

  there('jobs whose names begin alike are nothing to each other', async () => {
    const name = job();
    const [short, long] = [await queue.source(name), await queue.source(`${name}_b`)];
    await short.submit(manifestOf());
    await long.submit(manifestOf({ shards: { count: 1, rows: 1 } }));
    await short.remove();
    expect((await lease(long)).shard).toBe(0);
  });

  there('who still works on a job that was overwritten has nothing to say in the new one', async () => {
    const name = job();
    const [old, next] = [await queue.source(name), await queue.source(name)];
    await old.submit(manifestOf({ id: '0000000000000001', shards: { count: 1, rows: 1 } }));
    const late = await lease(old, 'late');
    await next.remove();
    await next.submit(manifestOf({ id: '0000000000000002', shards: { count: 1, rows: 1 } }));
    expect(await late.renew()).toBe(false);
    await late.giveBack();
    await late.fail('too late');
    expect(await late.commit()).toBe(false);
    expect(await next.shards()).toEqual([{ shard: 0, state: 'open', deliveries: 0, reasons: [] }]);
    // Within one process there is one source.
    if (kind.name !== 'memory') {
      await old.agree('{"old":1}').catch(() => undefined);
      expect(await next.agree('{"new":1}')).toBe('{"new":1}');
      await expect(old.lease({ worker: 'late' })).rejects.toThrow(/another job|stream not found/);
    }
    const mine = await lease(next, 'mine');
    expect([mine.delivery, await mine.commit()]).toEqual([1, true]);
  });

  there('what decides the results is what the first worker says', async () => {
    const name = job();
    const [one, other] = [await queue.source(name), await queue.source(name)];
    await one.submit(manifestOf());
    expect(await one.agree('{"a":1}')).toBe('{"a":1}');
    expect(await other.agree('{"a":2}')).toBe('{"a":1}');
  });

  there('a worker says how far its shard is, which ends with its lease', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf());
    const mine = await lease(source);
    expect(await mine.renew({ rows: 12, rowsPerSecond: 2.5 })).toBe(true);
    expect((await source.shards())[mine.shard]?.progress).toEqual({ rows: 12, rowsPerSecond: 2.5 });
    expect(await mine.renew()).toBe(true);
    expect((await source.shards())[mine.shard]?.progress).toEqual({ rows: 12, rowsPerSecond: 2.5 });
    const status = await jobStatus(source);
    expect(status.rowsDone).toBe(Math.min(12, rowsOf(status.rows, mine.shard)));
    await mine.giveBack();
    expect((await source.shards())[mine.shard]?.progress).toBeUndefined();
    const again = await lease(source);
    await again.renew({ rows: 3, rowsPerSecond: 1 });
    await again.commit();
    expect((await source.shards())[again.shard]?.progress).toBeUndefined();
    expect((await jobStatus(source)).rowsDone).toBe(rowsOf(status.rows, again.shard));
  });

  there('a job that is cancelled is over: who works on it learns it, what is done stays', async () => {
    const name = job();
    const [one, other] = [await queue.source(name), await queue.source(name)];
    await one.submit(manifestOf());
    const [done, taken] = [await lease(one), await lease(one)];
    await done.commit();
    const waiting = other.lease({ worker: 'other' });
    const third = await waiting;
    expect(await other.cancel('the job was cancelled')).toBe(2);
    expect([await taken.renew({ rows: 1, rowsPerSecond: 1 }), await third?.renew()]).toEqual([false, false]);
    await taken.giveBack();
    await third?.fail('too late');
    expect(await one.lease({ worker: 'w' })).toBeUndefined();
    const states = await one.shards();
    expect(states.map(({ state }) => state).sort()).toEqual(['committed', 'failed', 'failed']);
    for (const { state, reasons } of states)
      expect(reasons).toEqual(state === 'failed' ? ['the job was cancelled'] : []);
    const { ended, secondsLeft } = await jobStatus(one);
    expect([ended, secondsLeft]).toEqual([true, undefined]);
    expect(await one.cancel('again')).toBe(0);
  });

  there('all jobs of a queue are listed', async () => {
    const name = job();
    const source = await queue.source(name);
    expect(await source.jobs()).not.toContain(name);
    await source.submit(manifestOf());
    const jobs = await source.jobs();
    expect(jobs).toContain(kind.name === 'memory' ? 'memory' : name);
    expect(jobs).toEqual([...jobs].sort());
    await source.remove();
    expect(await source.jobs()).not.toContain(name);
  });

  there('what is given back others have at once, and it does not count', async () => {
    const name = job();
    const [one, other] = [await queue.source(name), await queue.source(name)];
    await one.submit(manifestOf({ shards: { count: 1, rows: 1 }, maxDeliver: 1 }));
    for (let round = 0; round < 3; round += 1) {
      const mine = await lease(one);
      const awaited = lease(other);
      await mine.giveBack();
      const theirs = await awaited;
      expect([theirs.shard, theirs.delivery, await mine.renew()]).toEqual([0, 1, false]);
      await theirs.giveBack();
    }
    expect(await one.shards()).toEqual([{ shard: 0, state: 'open', deliveries: 0, reasons: [] }]);
  });

  there('a shard that fails each time is given up, with the reasons', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf({ shards: { count: 2, rows: 1 }, maxDeliver: 2 }));
    const first = await lease(source, 'w1');
    await first.fail('out of luck');
    const rest = [await lease(source, 'w2'), await lease(source, 'w2')];
    const again = rest.find(({ shard }) => shard === first.shard);
    const other = rest.find(({ shard }) => shard !== first.shard);
    expect(again?.delivery).toBe(2);
    await other?.commit();
    await again?.fail('once more');
    expect(await source.lease({ worker: 'w3' })).toBeUndefined();
    expect((await source.shards())[first.shard]).toMatchObject({
      state: 'failed',
      deliveries: 2,
      reasons: ['w1: out of luck', 'w2: once more'],
    });
  });

  there('a lease that is not renewed ends; who was late has lost it, and cannot overwrite', async () => {
    const name = job();
    const [one, other] = [await queue.source(name), await queue.source(name)];
    // The second one's, which is not renewed for some calls, does not end.
    await one.submit(manifestOf({ shards: { count: 1, rows: 1 }, leaseSeconds: LONGER_SECONDS }));
    const late = await lease(one, 'late');
    const second = await lease(other, 'second');
    expect([second.shard, second.delivery]).toEqual([0, 2]);
    expect(await late.renew()).toBe(false);
    await late.giveBack();
    await late.fail('too late');
    expect(await second.renew()).toBe(true);
    expect([await second.commit(), await second.commit(), await late.commit()]).toEqual([true, true, false]);
    expect(await one.shards()).toMatchObject([{ state: 'committed', attempt: second.attempt, worker: 'second' }]);
    expect((await one.shards())[0]?.reasons).toEqual(['late went away, or did not renew its lease in time']);
  });

  there('the first part that is whole counts, also that of a worker which lost its lease', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf({ shards: { count: 1, rows: 1 }, leaseSeconds: SHORT_SECONDS }));
    const late = await lease(source, 'late');
    const second = await lease(source, 'second');
    expect([await late.commit(), await second.renew(), await second.commit()]).toEqual([true, false, false]);
    expect(await source.shards()).toMatchObject([{ state: 'committed', attempt: late.attempt }]);
    expect(await source.lease({ worker: 'third' })).toBeUndefined();
  });

  there('a lease that is renewed goes on', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf({ shards: { count: 2, rows: 1 }, leaseSeconds: LONGER_SECONDS }));
    const kept = await lease(source, 'kept');
    const gone = await lease(source, 'gone');
    const renewals = setInterval(() => void kept.renew(), (LONGER_SECONDS * 1000) / 8);
    try {
      const again = await lease(source, 'again');
      expect([again.shard, again.delivery]).toEqual([gone.shard, 2]);
    } finally {
      clearInterval(renewals);
    }
    expect([await kept.renew(), await kept.commit()]).toEqual([true, true]);
  });

  there('a shard whose workers all went away is given up', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf({ shards: { count: 1, rows: 1 }, leaseSeconds: SHORT_SECONDS, maxDeliver: 2 }));
    const [first, second] = [await lease(source, 'first'), await lease(source, 'second')];
    expect([first.delivery, second.delivery]).toEqual([1, 2]);
    expect(await source.lease({ worker: 'third' })).toBeUndefined();
    expect(await source.shards()).toMatchObject([
      {
        state: 'failed',
        deliveries: 2,
        reasons: [
          'first went away, or did not renew its lease in time',
          'second went away, or did not renew its lease in time',
        ],
      },
    ]);
  });

  there('who waits is let go by the signal', async () => {
    const source = await queue.source(job());
    await source.submit(manifestOf({ shards: { count: 1, rows: 1 } }));
    await lease(source);
    const stop = new AbortController();
    const waiting = source.lease({ worker: 'w', signal: stop.signal });
    stop.abort();
    expect(await waiting).toBeUndefined();
  });

  there('several that ask at once have each another shard', async () => {
    const name = job();
    const count = 24;
    const sources = await Promise.all(Array.from({ length: 6 }, () => queue.source(name)));
    await sources[0]?.submit(manifestOf({ shards: { count, rows: 1 } }));
    const taken = await Promise.all(
      sources.map(async (source) => {
        const own: number[] = [];
        for (
          let next = await source.lease({ worker: 'w' });
          next !== undefined;
          next = await source.lease({ worker: 'w' })
        ) {
          own.push(next.shard);
          expect(await next.commit()).toBe(true);
        }
        return own;
      }),
    );
    expect(taken.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, shard) => shard));
  });
});
