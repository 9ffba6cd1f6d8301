// Peers of no good will: what honest engines say to each other over sockets is recorded, changed, and said again, to an
// engine that follows and to one that generates.
import { register } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { needBuild, TINY } from './lib/models.mjs';

const USAGE = `Two engines of a tiny model share its layers over a socket of this machine; what they say is recorded. Then one of them is played by somebody who says that with one harm done:
bytes changed under a right checksum, frames cut, too long, missing, repeated, out of order, replayed, of another kind, claiming gigabytes, noise, floods, ends in the
middle, hellos of other versions, models and layers. The other engine may end the run, with a documented error, soon and in little memory; now and then an honest run
has to give the same bits as ever.
  --cases N     so many changed runs (default 10000)`;

/** A run ends within so long, whatever is said. */
const MOST_MILLISECONDS = 15_000;
const MOST_GROWTH_MIB = 256;
const HONEST_EVERY = 250;
/** Cases after which the process has what it keeps. */
const WARM = 200;
const TIMES = { connectSeconds: 5, silenceSeconds: 5, stallSeconds: 5 };
const OPENED = { model: TINY, batchSize: 2, batches: 2, tokensPerSquare: 16, threads: 1 };
const ROWS = Array.from({ length: 6 }, (_, at) => ({ id: at, tokens: [1, 3 + at, 7, 9 + at], maxNewTokens: 3 }));

const residentMiB = () => {
  globalThis.gc?.();
  return Math.round(process.memoryUsage.rss() / 2 ** 20);
};

await runCampaign(
  { usage: USAGE, options: { cases: { type: 'string', default: '10000' } }, minutes: 60, done: 'changed runs' },
  async (campaign) => {
    needBuild();
    register('../typescriptHooks.mjs', import.meta.url);
    const { Engine, SpillwayError } = await import('../../dist/index.js');
    const wire = {
      ...(await import('../../dist/engine/peers/sockets/frames.js')),
      ...(await import('../../dist/engine/peers/sockets/preamble.js')),
    };
    const { frameOf, preamble } = wire;
    const hostile = await import('../../test/support/hostileSocket.ts');
    const { whole, pick, chance } = campaign.random;
    process.on('uncaughtException', (error) => campaign.violation('an exception that nobody caught', error.stack));
    process.on('unhandledRejection', (error) => campaign.violation('a rejection that nobody heard', error?.stack));

    const first = await Engine.open({ ...OPENED, layers: { first: 0, count: 1 } });
    const second = await Engine.open({ ...OPENED, layers: { first: 1, count: 1 } });
    const served = [];
    const listener = await second.listen('127.0.0.1:0', { ...TIMES, onRun: (run) => served.push(run.ended) });

    const generated = async (address) => {
      const results = [];
      const peers = await first.connect([address], TIMES);
      for await (const row of first.generate(ROWS, { peers, logprobs: 2 })) results.push(row);
      return JSON.stringify(results);
    };
    let reference;
    const run = await hostile.recorded(wire, listener.address, async (address) => {
      reference = await generated(address);
      await served[0];
    });
    campaign.say(`recorded ${run.forward.length} frames forth, ${run.results.length} back`);

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

    const harmedHello = (hello) => {
      const version = chance(0.2) ? preamble(whole(0, 1000)) : preamble();
      const harm = pick(['byte', 'bytes', 'cut', 'longer', 'oversize', 'kind', 'number', 'raw', 'noise']);
      return [version, ...hostile.harmed(wire, [hello], harm, whole)];
    };

    const playFirst = async (what, harm) => {
      const id = Array.from({ length: 32 }, () => whole(0, 15).toString(16)).join('');
      const hellos = {
        hello: hostile.withRun(run.hello, id),
        returnHello: hostile.withRun(run.returnHello, id),
      };
      served.length = 0;
      const greeting = harm === 'hello' ? harmedHello(hellos.hello) : undefined;
      const said = greeting ? [] : hostile.harmed(wire, run.forward, harm, whole, 1);
      await within(hostile.playFirst(wire, listener.address, hellos, said, greeting), what);
      for (const ended of served) judge(await within(ended, what), what);
    };

    const playLast = async (what, harm) => {
      const said =
        harm === 'hello' ? [Buffer.concat(frameOf('end', 1, []))] : hostile.harmed(wire, run.results, harm, whole, 1);
      await within(
        hostile.playLast(wire, run, said, (address) =>
          generated(address).then(
            () => judge(undefined, what),
            (error) => judge(error, what),
          ),
        ),
        what,
      );
    };

    let warm;
    const cases = campaign.number('cases');
    for (let at = 0; at < cases && campaign.goesOn; at++) {
      const harm = pick([...hostile.HARMS, 'hello']);
      const who = chance(0.7) ? 'first' : 'last';
      const what = `case ${at}: the ${who} engine is played, ${harm}`;
      await (who === 'first' ? playFirst(what, harm) : playLast(what, harm));
      campaign.count('changed runs');
      if (at === WARM) warm = residentMiB();
      if (at % HONEST_EVERY !== 0) continue;
      const honest = await within(
        generated(listener.address).catch((error) => error.stack),
        `honest run after case ${at}`,
      );
      if (honest !== reference) campaign.violation(`honest run after case ${at}: other results`, honest);
      campaign.count('honest runs');
      campaign.say(`${at} cases, ${residentMiB()} MiB`);
    }
    await sleep(500);
    const growth = warm === undefined ? 0 : residentMiB() - warm;
    campaign.set('grown MiB', growth);
    if (growth > MOST_GROWTH_MIB) campaign.violation(`grown by ${growth} MiB, expected at most ${MOST_GROWTH_MIB}`);
    await within(listener.close(), 'the listener');
    await within(Promise.all([first.close(), second.close()]), 'the engines');
  },
);
