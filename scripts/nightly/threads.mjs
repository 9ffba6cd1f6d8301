// Worker threads that run engines, terminated in mid-run, beside an engine of the main thread that goes on.
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { runCampaign } from './lib/Campaign.mjs';
import { needBuild, TINY, writeTokenRows } from './lib/models.mjs';

const USAGE = `Terminates worker threads that open, repack, stream, generate, run a job and wait, at random moments, in one process, while an engine of the main thread
answers the same rows again and again: always the same. Memory, threads and open files may not grow with the workers that ended, nothing may be left on disk
but the store, and the output of a job whose worker was terminated can be gone on with.
  --workers N   so many are terminated (default 100)`;

/** Workers after which the process has what it keeps: heaps of the allocator, pages of code. */
const WARM = 25;
/**
 * Growth after that which is taken for noise. The allocator keeps arenas of threads that ended; a leaked engine or heap
 * of a worker is several MiB each.
 */
const MOST_GROWTH = { residentMiB: 96, threads: 2, files: 2 };
/** A worker takes at most so long to end, and the main engine to answer. */
const HANG_MILLISECONDS = 60_000;
const JOB = { maxNewTokens: 40, ignoreEos: true };

function usage() {
  globalThis.gc?.();
  const resident = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;
  return {
    residentMiB: Math.round(resident),
    threads: readdirSync('/proc/self/task').length,
    files: openFiles().length,
  };
}

/**
 * Where Node opens a file for a thread that ends before it is open, it leaves it open; its own loader of modules does
 * so, and what that leaves is not counted.
 */
function openFiles() {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      const path = readlinkSync(join('/proc/self/fd', descriptor));
      return /\.m?js$/.test(path) ? [] : [path];
    } catch {
      return [];
    }
  });
}

/** What ended needs a moment to be gone. @returns the least of some looks */
async function settledUsage() {
  let least = usage();
  for (let look = 0; look < 20; look++) {
    await sleep(100);
    const now = usage();
    least = Object.fromEntries(Object.entries(least).map(([name, value]) => [name, Math.min(value, now[name])]));
  }
  return least;
}

function withinTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what}: no end after ${HANG_MILLISECONDS / 1000} s`)),
      HANG_MILLISECONDS,
    );
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function answers(engine, rows) {
  const results = [];
  for await (const row of engine.generate(rows, { maxNewTokens: 20, ignoreEos: true, logprobs: 2 })) results.push(row);
  return JSON.stringify(results);
}

/**
 * The main thread's engine at work until told to stop. @returns how to stop it; resolves to the number of its rounds
 */
function workingBeside(campaign, engine, rows, expected) {
  let [goesOn, rounds] = [true, 0];
  const ended = (async () => {
    while (goesOn) {
      if ((await withinTime(answers(engine, rows), "the main thread's engine")) !== expected)
        campaign.violation("the main thread's engine answered otherwise beside workers");
      rounds += 1;
    }
    return rounds;
  })();
  ended.catch((error) => campaign.violation(error.message));
  return () => {
    goesOn = false;
    return ended;
  };
}

/** @returns the error that the worker died of, if it did so by itself */
async function terminated(campaign, workerData) {
  const { random } = campaign;
  const worker = new Worker(new URL('lib/engineWorker.mjs', import.meta.url), { workerData });
  let failure;
  worker.on('error', (error) => {
    failure = error;
  });
  // Some at once, some while they import, open or repack, most in mid-run.
  const seen = new Promise((resolve) => {
    const until = random.pick(['begun', 'repacking', 'open', 'working', 'length', 'length', 'length']);
    worker.on('message', (message) => message === until && resolve());
  });
  await Promise.race([seen, sleep(random.whole(50, 3000))]);
  await sleep(random.pick([0, 0, 1, 5, 20, 60]));
  await withinTime(worker.terminate(), 'a worker that was terminated');
  return failure;
}

/** A job, and what its output is where nothing happens. */
async function referenceJob(runJob, Engine, folder) {
  const files = { input: writeTokenRows(join(folder, 'rows.jsonl'), 200), output: join(folder, 'out.jsonl') };
  const engine = await Engine.open({ model: TINY });
  await runJob({ engine, ...files, generate: JOB });
  await engine.close();
  const content = readFileSync(files.output, 'utf8');
  return { files, content, goOn: (options) => runJob({ ...options, ...files, generate: JOB }) };
}

/** Its lock names a process that lives, this one; still the job has to go on, and to end as if nothing had happened. */
async function goOnWith({ options }, campaign, { goOn, content, files }) {
  const { Engine } = await import('../../dist/index.js');
  const engine = await Engine.open(options);
  try {
    await withinTime(goOn({ engine, resume: true }), 'the job of a worker that was terminated');
    if (readFileSync(files.output, 'utf8') !== content)
      campaign.violation('a job that went on after its worker was terminated has another output');
    campaign.count('jobs gone on with');
  } catch (error) {
    campaign.violation('the output of a job whose worker was terminated cannot be gone on with', error.message);
  } finally {
    await engine.close();
    for (const ending of ['', '.lock', '.job.json']) rmSync(`${files.output}${ending}`, { force: true });
  }
}

await runCampaign(
  { usage: USAGE, options: { workers: { type: 'string', default: '100' } }, minutes: 20, done: 'terminated' },
  async (campaign) => {
    needBuild();
    const { Engine } = await import('../../dist/index.js');
    const { runJob } = await import('../../dist/api/jobs.js');
    const { folder, random } = campaign;
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    const rows = Array.from({ length: 24 }, (_, at) => ({
      id: at,
      tokens: [1, ...Array.from({ length: 1 + ((at * 5) % 23) }, (__, token) => 3 + ((at * 31 + token * 17) % 250))],
    }));
    const job = await referenceJob(runJob, Engine, folder);
    const inMemory = { model: TINY, batchSize: 4, batches: 2 };
    const streamed = { ...inMemory, disk, weights: { cpu: 0, disk: 1 } };
    const kinds = () =>
      random.pick([
        { kind: 'rows', options: inMemory, rows },
        { kind: 'rows', options: streamed, rows },
        {
          kind: 'rows',
          options: { ...streamed, cache: { cpu: 0.2, disk: 0.8 }, activations: { cpu: 0, disk: 1 } },
          rows,
        },
        // A store of its own, so that repacking is what is ended.
        { kind: 'rows', options: { ...streamed, disk: join(disk, `own-${campaign.figure('terminated')}`) }, rows },
        { kind: 'job', options: inMemory, ...job.files, generate: JOB },
      ]);

    const own = await Engine.open(streamed);
    const expected = await answers(own, rows);
    const stop = workingBeside(campaign, own, rows, expected);
    let warm;
    while (campaign.goesOn && campaign.figure('terminated') < campaign.number('workers')) {
      const workerData = kinds();
      const failure = await terminated(campaign, workerData);
      if (failure !== undefined)
        campaign.violation(`a worker (${workerData.kind}) died by itself`, failure.stack ?? failure.message);
      campaign.count('terminated');
      if (workerData.kind === 'job') await goOnWith(workerData, campaign, job);
      if (campaign.figure('terminated') === Math.min(WARM, Math.floor(campaign.number('workers') / 2)))
        warm = await settledUsage();
      if (campaign.figure('terminated') % 10 === 0)
        campaign.say(`${campaign.figure('terminated')} terminated, ${JSON.stringify(usage())}`);
    }
    campaign.set("rounds of the main thread's engine", await withinTime(stop(), "the main thread's engine"));

    const now = await settledUsage();
    for (const [name, most] of Object.entries(MOST_GROWTH)) {
      campaign.set(`${name} grew`, `${warm[name]} to ${now[name]}`);
      if (now[name] > warm[name] + most)
        campaign.violation(
          `${name} grew from ${warm[name]} to ${now[name]} over the workers after the first ${WARM}`,
          name === 'files' ? openFiles().join('\n') : '',
        );
    }
    await own.close();
  },
);
