// Peers of no good will: what honest engines say to each other over sockets is recorded, changed, and said again, to
// engines that follow, between others and last, and to one that generates.
import { register } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ROOT } from './lib/commandLine.mjs';
import { needBuild } from './lib/models.mjs';

const USAGE = `Three engines of a tiny model share its layers over sockets of this machine; what they say is recorded. Then some of them are played by somebody who says that with one harm
done: bits and bytes changed under a right checksum, fields of messages changed, frames cut, spliced, too long, with lengths that lie, missing, repeated, out of order,
replayed, of another run, of another kind, claiming gigabytes, noise, floods, ends in the middle, hellos and welcomes of other versions and models; byte by byte, or falling
silent, or giving signs of life alone, or not listening. The engine that is left may end its run, with a documented error, soon and in little memory; after each harm an
honest run over the same socket has to give the same bits as ever.
  --cases N     so many changed runs (default 10000)`;

/** A run ends within so long, whatever is said. */
const MOST_MILLISECONDS = 30_000;
const MOST_GROWTH_MIB = 64;
const MOST_PEAK_MIB = 256;
const SAID_EVERY = 500;
/** Cases after which the process has what it keeps. */
const WARM = 500;
const TIMES = { connectSeconds: 5, silenceSeconds: 3, stallSeconds: 3 };
const OPENED = {
  model: join(ROOT, 'test/fixtures/models/gemma3-mixed.gguf'),
  batchSize: 2,
  batches: 2,
  tokensPerSquare: 16,
  threads: 1,
};
/** Shares of all cases. Those that wait for a clock take seconds. */
const MANNERS = { drip: 0.02, deaf: 0.02, silent: 0.005, stalled: 0.005 };
const ROWS = Array.from({ length: 6 }, (_, at) => ({ id: at, tokens: [1, 3 + at, 7, 9 + at], maxNewTokens: 3 }));
/** Other rows: those of the run whose frames come in between. */
const OTHERS = Array.from({ length: 4 }, (_, at) => ({ id: at, tokens: [2, 5 + at, 8], maxNewTokens: 5 }));
/** Connections that an engine has at once, and a few more. */
const STRANGERS = 280;

const mebibytes = (bytes) => Math.round(bytes / 2 ** 20);
const residentMiB = () => {
  globalThis.gc?.();
  return mebibytes(process.memoryUsage.rss());
};

await runCampaign(
  { usage: USAGE, options: { cases: { type: 'string', default: '10000' } }, minutes: 90, done: 'changed runs' },
  async (campaign) => {
    needBuild();
    register('../typescriptHooks.mjs', import.meta.url);
    const { Engine, SpillwayError } = await import('../../dist/index.js');
    const wire = {
      ...(await import('../../dist/engine/peers/sockets/frames.js')),
      ...(await import('../../dist/engine/peers/sockets/messageFrames.js')),
      ...(await import('../../dist/engine/peers/sockets/preamble.js')),
    };
    const { HARMS } = await import('../../test/support/harmedFrames.ts');
    const hostile = await import('../../test/support/hostileSocket.ts');
    const { next, whole, pick } = campaign.random;
    process.on('uncaughtException', (error) => campaign.violation('an exception that nobody caught', error.stack));
    process.on('unhandledRejection', (error) => campaign.violation('a rejection that nobody heard', error?.stack));

    const engines = [];
    for (const [at, count] of [1, 2, 1].entries())
      engines.push(await Engine.open({ ...OPENED, layers: { first: [0, 1, 3][at], count } }));
    const [first, ...followers] = engines;
    const served = [];
    const listening = (path) =>
      Promise.all(
        followers.map((engine, at) =>
          engine.listen(path === undefined ? '127.0.0.1:0' : `unix:${join(path, `${at}.sock`)}`, {
            ...TIMES,
            onRun: (run) => served.push(run.ended),
          }),
        ),
      );
    /** Each follower listens on both kinds of sockets. */
    const rings = [await listening(), await listening(campaign.folder)];
    const addressesOf = (ring) => ring.map(({ address }) => address);

    const generated = async (addresses, rows = ROWS) => {
      const results = [];
      const peers = await first.connect(addresses, TIMES);
      for await (const row of first.generate(rows, { peers, logprobs: 2 })) results.push(row);
      return JSON.stringify(results);
    };
    const targets = addressesOf(rings[0]);
    const reference = await generated(targets);
    const recorded = (rows) =>
      hostile.recorded(wire, targets, async (addresses) => {
        served.length = 0;
        await generated(addresses, rows);
        await Promise.all(served);
      });
    const [run, other] = [await recorded(ROWS), await recorded(OTHERS)];
    campaign.say(
      `recorded ${run.toMiddle.forth.length} and ${run.toLast.forth.length} frames forth, ${run.results.back.length} back`,
    );

    const within = (promise, what) => {
      let timer;
      const late = new Promise((resolve) => {
        timer = setTimeout(() => {
          campaign.violation(`${what}: no end within ${MOST_MILLISECONDS / 1000} s`);
          resolve();
        }, MOST_MILLISECONDS);
      });
      return Promise.race([promise, late]).finally(() => clearTimeout(timer));
    };
    const judge = (error, what) => {
      campaign.count(error === undefined ? 'ended well' : 'ended with an error');
      if (error !== undefined && !(error instanceof SpillwayError))
        campaign.violation(`${what}: no documented error`, error?.stack ?? error);
    };
    const name = () => Array.from({ length: 32 }, () => whole(0, 15).toString(16)).join('');

    const mannerOf = () => {
      let drawn = next();
      return Object.keys(MANNERS).find((manner) => (drawn -= MANNERS[manner]) < 0) ?? 'plain';
    };

    const attack = async (victim, ring, harm, what) => {
      const manner = mannerOf();
      const play = { ...hostile.harmedPart(wire, { run, other }, victim, harm, whole), manner };
      campaign.count(manner);
      if (victim === 'first') {
        const at = ring === rings[0] ? '127.0.0.1:0' : `unix:${join(campaign.folder, 'impostor.sock')}`;
        await hostile.playBehind(wire, run, play, at, (addresses) =>
          generated(addresses).then(
            () => judge(undefined, what),
            (error) => judge(error, what),
          ),
        );
        return;
      }
      served.length = 0;
      const { address } = ring[victim === 'middle' ? 0 : 1];
      await hostile.playBefore(wire, address, run, name(), victim, play);
      for (const ended of served) judge(await within(ended, what), what);
    };

    const honest = async (ring, what) => {
      const found = await within(
        generated(addressesOf(ring)).catch((error) => error.stack),
        `honest run ${what}`,
      );
      if (found !== reference) campaign.violation(`honest run ${what}: other results`, found);
      campaign.count('honest runs');
    };

    const cases = campaign.number('cases');
    let [warm, peak] = [undefined, 0];
    for (let at = 0; at < cases && campaign.goesOn; at++) {
      const harm = pick([...HARMS, 'greeting']);
      const victim = pick(hostile.VICTIMS);
      const ring = pick(rings);
      const what = `case ${at}: ${harm}, to the ${victim} engine`;
      const start = performance.now();
      await within(attack(victim, ring, harm, what), what);
      campaign.set('slowest ms', Math.max(campaign.figure('slowest ms'), Math.round(performance.now() - start)));
      campaign.count('changed runs');
      await honest(ring, `after ${what}`);
      if (at === Math.min(WARM, cases - 1)) warm = residentMiB();
      if (warm !== undefined) peak = Math.max(peak, mebibytes(process.memoryUsage.rss()));
      if (at % SAID_EVERY === 0) campaign.say(`${at} cases, ${residentMiB()} MiB`);
    }

    // More strangers than an engine has room for, who begin to say something and never end: they are let go of.
    const strangers = rings.flatMap((ring) => hostile.strangers(wire, ring[1].address, STRANGERS));
    await within(Promise.all(strangers.map(({ closed }) => closed)), `${strangers.length} strangers`);
    for (const ring of rings) await honest(ring, 'after strangers');
    await sleep(500);
    // One that ended before it was warm has nothing to compare with.
    if (warm !== undefined) {
      const growth = residentMiB() - warm;
      campaign.set('grown MiB', growth);
      campaign.set('grown at most MiB', peak - warm);
      if (growth > MOST_GROWTH_MIB) campaign.violation(`grown by ${growth} MiB, expected at most ${MOST_GROWTH_MIB}`);
      if (peak - warm > MOST_PEAK_MIB)
        campaign.violation(`grown by ${peak - warm} MiB at the peak, expected at most ${MOST_PEAK_MIB}`);
    }
    await within(Promise.all(rings.flat().map((listener) => listener.close())), 'the listeners');
    await within(Promise.all(engines.map((engine) => engine.close())), 'the engines');
  },
);
