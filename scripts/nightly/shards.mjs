// Jobs in a queue under all that can happen to workers, servers, clocks and networks: what is collected is one machine's
// output.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runCampaign } from './lib/Campaign.mjs';
import { clockEnvironment, faketimeLibrary, setClock } from './lib/clock.mjs';
import { ending, MAIN, ROOT, run, start } from './lib/commandLine.mjs';
import { needBuild, TINY, writeTokenRows } from './lib/models.mjs';

const USAGE = `Puts jobs into a queue of a NATS server and of a Postgres, which it starts, lets 8 workers at each, as processes, and draws what happens: workers are killed (-9), stopped beyond
their lease and let go on, told to end (SIGTERM), joined by others; the server is killed, or ended, and started on the same store; a worker's network holds all, or breaks; clocks of workers jump
(libfaketime, where it is installed). Workers answer rows by a stub, in every tenth scenario by the real engine over a tiny model. What is collected has to be the output of one machine, byte for
byte. In some a row ends each process that takes it: its shard has to be given up, by name, and the others done.
  --scenarios N  so many (default 200)
  --at-once N    so many at a time (default 2)
  --only NAME    nats or postgres`;

const WORKERS = 8;
const MOST_SECONDS = 600;
const CLOCKS = ['-1d', '-90', '+90', '+2d'];
const WORKER = fileURLToPath(new URL('./lib/shardWorker.mjs', import.meta.url));
const TROUBLES = ['kill', 'stop', 'term', 'server', 'network', 'clock'];

/** What of a scenario is drawn beforehand, so that scenarios that run at once draw the same as one by one. */
function draw({ random }, number, kinds, library) {
  const troubles = TROUBLES.filter((trouble) => random.chance(0.5) && (trouble !== 'clock' || library !== undefined));
  const poison = random.chance(0.1);
  const real = number % 10 === 9;
  const shards = random.pick([1, 7, 30, 100]);
  return {
    number,
    kind: kinds[number % kinds.length],
    real,
    poison: poison && !real ? random.whole(0, 99) : undefined,
    troubles: poison ? ['term'] : troubles,
    times: random.whole(3, 14),
    shards,
    rows: real ? 60 : random.pick([100, 150, 400]),
    shardRows: random.pick([1, 1, 3]),
    leaseSeconds: random.pick([1, 2]),
    milliseconds: random.pick([2, 10, 40]),
    moments: Array.from({ length: 20 }, () => ({
      wait: random.whole(20, 700),
      worker: random.whole(0, WORKERS - 1),
      trouble: random.next(),
      which: random.next(),
    })),
  };
}

function rowsOf(scenario, file) {
  if (scenario.real) return writeTokenRows(file, scenario.rows, 20);
  writeFileSync(
    file,
    Array.from({ length: scenario.rows }, (_, at) =>
      at % 25 === 24 ? 'broken\n' : `${JSON.stringify({ id: `row-${at}`, prompt: `prompt ${at} `.repeat(at % 5) })}\n`,
    ).join(''),
  );
  return file;
}

/** A worker, started again where it ended before the job did. */
class Worker {
  constructor(scenario, place, forwarder, clock) {
    Object.assign(this, { scenario, place, forwarder, clock });
    this.begin();
  }

  begin() {
    const { scenario, place, clock } = this;
    const queue = place.url(Number(this.forwarder.address.split(':')[1]));
    const env = { ...place.env, ...(clock && clockEnvironment(clock.library, clock.file)) };
    const stub = [
      queue,
      place.job,
      place.stub,
      String(scenario.milliseconds),
      ...(scenario.poison === undefined ? [] : [String(scenario.poison)]),
    ];
    this.run = start(scenario.real ? ['job', 'work', '--queue', queue, '--job', place.job, '--threads', '1'] : stub, {
      env,
      script: scenario.real ? MAIN : WORKER,
      hangSeconds: MOST_SECONDS,
    });
    this.told = undefined;
    this.result = undefined;
    void this.run.ended.then((result) => {
      this.result = result;
    });
  }

  signal(signal) {
    this.told = signal === 'SIGCONT' || signal === 'SIGSTOP' ? this.told : signal;
    this.run.child.kill(signal);
  }
}

async function scenarioRun(campaign, scenario, libraries) {
  const { kind, number } = scenario;
  const name = `${number} (${kind.name}${scenario.real ? ', real engine' : ''}, ${scenario.shards} shards, ${scenario.poison === undefined ? scenario.troubles.join('+') || 'no trouble' : 'poison'})`;
  const folder = join(campaign.folder, String(number));
  mkdirSync(folder);
  const [input, output] = [rowsOf(scenario, join(folder, 'in.jsonl')), join(folder, 'out.jsonl')];
  const whole = join(folder, 'whole.jsonl');
  const server = await kind.start();
  const job = `job-${number}`;
  const source = await libraries.openWorkSource(kind.url(server.port), job);
  const forwarders = await Promise.all(
    Array.from({ length: WORKERS }, () => libraries.Forwarder.open(`127.0.0.1:${server.port}`)),
  );
  const workers = [];
  try {
    const task = { generate: { maxNewTokens: 4, ignoreEos: true } };
    if (scenario.real) {
      const flags = [
        '--model',
        TINY,
        '--input',
        input,
        '--max-new-tokens',
        '4',
        '--ignore-eos',
        '--policy',
        'default',
        '--threads',
        '1',
      ];
      const reference = await run(['generate', ...flags, '--output', whole], { env: libraries.env });
      const submitted = await run(
        [
          'job',
          'submit',
          '--queue',
          kind.url(server.port),
          '--job',
          job,
          '--output',
          output,
          ...flags.slice(0, -2),
          '--shards',
          String(scenario.shards),
          '--max-deliver',
          '1000',
          '--lease-seconds',
          String(scenario.leaseSeconds),
        ],
        { env: libraries.env },
      );
      if (reference.code !== 4 && reference.code !== 0)
        return campaign.violation(`${name}: the reference`, ending(reference));
      if (submitted.code !== 0) return campaign.violation(`${name}: submit`, ending(submitted));
    } else {
      await libraries.runJob({ engine: new libraries.StubEngine(), input, output: whole, ...task });
      await libraries.submitJob({
        source,
        input,
        output,
        shards: scenario.shards,
        shardRows: scenario.shardRows,
        maxDeliver: scenario.poison === undefined ? 1000 : 3,
        leaseSeconds: scenario.leaseSeconds,
        ...task,
      });
    }
    const place = { job, url: kind.url, stub: libraries.stub, env: libraries.env };
    for (const [at, forwarder] of forwarders.entries()) {
      const clock =
        scenario.troubles.includes('clock') && at % 2 === 0
          ? { library: libraries.faketime, file: join(folder, `clock-${at}`) }
          : undefined;
      if (clock !== undefined) setClock(clock.file, '+0');
      workers.push(new Worker(scenario, place, forwarder, clock));
    }
    const begin = performance.now();
    const late = () => performance.now() - begin > MOST_SECONDS * 1000;
    for (let time = 0; time < scenario.times && scenario.troubles.length > 0; time += 1) {
      const moment = scenario.moments[time % scenario.moments.length];
      await sleep(moment.wait);
      if (workers.every(({ result }) => result?.code === 0)) break;
      await trouble(campaign, scenario, workers, server, moment);
      keepUp(campaign, name, scenario, workers);
    }
    for (;;) {
      keepUp(campaign, name, scenario, workers);
      if (workers.every(({ result }) => result !== undefined && (result.code === 0 || result.code === 4))) break;
      if (scenario.poison !== undefined && workers.every(({ result }) => result !== undefined)) break;
      if (late()) {
        const hanging = workers.filter(({ result }) => result === undefined).length;
        campaign.violation(
          `${name}: ${hanging} workers had not ended after ${MOST_SECONDS} s`,
          JSON.stringify(await libraries.jobStatus(source)),
        );
        return;
      }
      await sleep(50);
    }
    await judge(campaign, name, scenario, libraries, { source, output, whole });
    campaign.count('scenarios');
    campaign.count(kind.name);
    if (scenario.real) campaign.count('with the real engine');
  } finally {
    for (const { run: running } of workers) running.child.kill('SIGKILL');
    await source[Symbol.asyncDispose]();
    for (const forwarder of forwarders) await forwarder.close();
    await server[Symbol.asyncDispose]();
  }
  if (campaign.violations === 0) rmSync(folder, { recursive: true, force: true });
  campaign.say(`${name}: ${campaign.violations} violations`);
}

/** Starts workers again that were made to end; looks whether others ended as they should. */
function keepUp(campaign, name, scenario, workers) {
  for (const worker of workers) {
    const { result, told } = worker;
    if (result === undefined || result.code === 0 || result.code === 4) continue;
    // One that was told to end may be killed on top, before or after it heard.
    const asTold = told !== undefined && (result.code === 143 || ['SIGKILL', 'SIGTERM'].includes(result.signal));
    // Whoever starts workers starts them again.
    const away = /cannot connect/.test(result.stderr);
    if (away) campaign.count('began while the queue was away');
    const poisoned = scenario.poison !== undefined && result.signal === 'SIGKILL';
    if (!asTold && !poisoned && !away) campaign.violation(`${name}: a worker ended`, ending(result));
    worker.begin();
  }
}

async function trouble(campaign, scenario, workers, server, { trouble: drawn, worker: at, which }) {
  const what = scenario.troubles[Math.floor(drawn * scenario.troubles.length)];
  const worker = workers[at];
  const beyond = scenario.leaseSeconds * 1000 * (0.7 + 1.3 * which);
  campaign.count(what);
  switch (what) {
    case 'kill':
      worker.signal('SIGKILL');
      await worker.run.ended;
      return;
    case 'term':
      worker.signal('SIGTERM');
      return;
    case 'stop':
      worker.signal('SIGSTOP');
      void sleep(beyond).then(() => worker.signal('SIGCONT'));
      return;
    case 'server':
      await server.end(which < 0.7 ? 'SIGKILL' : 'SIGINT');
      await sleep(which * 1500);
      await server.begin();
      return;
    case 'network':
      if (which < 0.3) return worker.forwarder.cut();
      worker.forwarder.hold();
      void sleep(beyond).then(() => worker.forwarder.heal());
      return;
    case 'clock':
      if (worker.clock) setClock(worker.clock.file, CLOCKS[Math.floor(which * CLOCKS.length)]);
  }
}

async function judge(campaign, name, scenario, libraries, { source, output, whole }) {
  const status = await libraries.jobStatus(source);
  if (!status.ended) return campaign.violation(`${name}: workers ended, and the job had not`, JSON.stringify(status));
  if (scenario.poison !== undefined) {
    const given = status.troubled.filter(({ state }) => state === 'failed');
    const shard = Math.floor(scenario.poison / scenario.shardRows) % scenario.shards;
    if (
      given.length !== 1 ||
      given[0].shard !== shard ||
      given[0].deliveries !== 3 ||
      !/went away/.test(given[0].reasons.at(-1))
    )
      campaign.violation(
        `${name}: expected shard ${shard} alone to be given up after 3 deliveries`,
        JSON.stringify(status),
      );
    const refusal = await libraries.collectJob({ output, source }).then(
      () => 'collected',
      (error) => error.message,
    );
    if (!refusal.includes(`shard ${shard} was given up after 3 deliveries`))
      campaign.violation(`${name}: collecting did not say which shard was given up`, refusal);
    campaign.count('poison');
    return undefined;
  }
  const before = readFileSync(whole);
  try {
    const { results } = await libraries.collectJob({ output, source });
    campaign.count('rows', results);
  } catch (error) {
    return campaign.violation(`${name}: collecting`, error.stack);
  }
  if (!readFileSync(output).equals(before)) campaign.violation(`${name}: the output is not one machine's`, output);
  return undefined;
}

const options = {
  scenarios: { type: 'string', default: '200' },
  'at-once': { type: 'string', default: '2' },
  only: { type: 'string' },
};
await runCampaign({ usage: USAGE, options, minutes: 90, done: 'scenarios' }, async (campaign) => {
  needBuild();
  process.chdir(ROOT);
  register('../typescriptHooks.mjs', import.meta.url);
  const servers = await import('../../test/support/databaseServers.ts');
  const { Forwarder } = await import('../../test/support/Forwarder.ts');
  const { compiledStub } = await import('../../test/jobs/support/compiledStub.ts');
  const jobs = await import('../../dist/api/jobs.js');
  const stub = compiledStub(join(campaign.folder, 'stubEngine.mjs'));
  const { StubEngine } = await import(stub);
  const faketime = faketimeLibrary();
  if (faketime === undefined) campaign.set('clocks', 'skipped: no libfaketime');
  const [nats, postgres] = [servers.natsServerPath(), servers.postgresFolder()];
  const kinds = [
    { name: 'nats', there: nats, start: () => servers.natsServer(nats), url: (port) => `nats://127.0.0.1:${port}` },
    {
      name: 'postgres',
      there: postgres,
      start: () => servers.postgresServer(postgres),
      url: (port) => `postgres://spillway@127.0.0.1:${port}/postgres`,
    },
  ].filter(({ name, there }) => {
    if (there === undefined) campaign.set(name, 'skipped: no server is installed');
    return there !== undefined && name.includes(campaign.values.only ?? '');
  });
  if (kinds.length === 0) {
    process.exitCode = 77;
    return;
  }
  const env = { XDG_CACHE_HOME: join(campaign.folder, 'cache') };
  const libraries = { ...jobs, Forwarder, StubEngine, stub, faketime, env };
  const scenarios = Array.from({ length: campaign.number('scenarios') }, (_, number) =>
    draw(campaign, number, kinds, faketime),
  );
  const next = async () => {
    for (let scenario = scenarios.shift(); scenario !== undefined && campaign.goesOn; scenario = scenarios.shift())
      await scenarioRun(campaign, scenario, libraries);
  };
  await Promise.all(Array.from({ length: campaign.number('at-once') }, next));
});
