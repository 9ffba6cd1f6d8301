// Several processes at once on one output, on one folder of stores, on one cache folder.
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, run, start } from './lib/commandLine.mjs';
import { needBuild, realModel, TINY, writeStreamingPolicy, writeTokenRows } from './lib/models.mjs';

const USAGE = `Two and four processes at once, some of them killed: on one output (one proceeds, the others are refused and name it, or find all done), on one
folder of repacked models (first runs: all answer, the same), on one cache folder (profiles, corrections, downloads from a source that breaks off).
  --rounds N    of each kind, for each number of processes (default 6)
  --only KIND   output, stale, store or cache`;

const PULLING = fileURLToPath(new URL('lib/pulling.mjs', import.meta.url));
const USED_BY = /in use by process (\d+)/;

const generate = (model, input, output, flags) => [
  'generate',
  '--model',
  model,
  '--input',
  input,
  '--output',
  output,
  '--max-new-tokens',
  '16',
  '--ignore-eos',
  ...flags,
];

/** Names in a folder that do not end in one of these. */
function strays(folder, ...endings) {
  return readdirSync(folder).filter((name) => !endings.some((ends) => name.endsWith(ends)));
}

function checkFolder(campaign, what, folder, ...endings) {
  const left = strays(folder, ...endings);
  if (left.length > 0) campaign.violation(`${what}: left lying in ${folder}`, left.join('\n'));
}

/** Starts processes within a time of each other; a share of them is killed meanwhile. @returns how each ended */
async function together(campaign, count, withinSeconds, begin, killShare = 0, killWithinSeconds = 1) {
  const { random } = campaign;
  return Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const [wait, killed, moment] = [
        random.next() * withinSeconds,
        random.chance(killShare),
        random.next() * killWithinSeconds,
      ];
      await sleep(wait * 1000);
      const { child, ended } = begin(at);
      if (killed) void sleep(moment * 1000).then(() => child.kill('SIGKILL'));
      const result = await ended;
      if (result.hung) campaign.violation('a process hung', ending(result));
      return { ...result, pid: child.pid, killed: killed && result.signal === 'SIGKILL' };
    }),
  );
}

/** One proceeds; another one is refused by the pid of one of them, or comes when all is done. */
function checkOneProceeded(campaign, what, results) {
  const pids = new Set(results.map(({ pid }) => pid));
  for (const result of results) {
    if (result.killed) continue;
    const holder = Number(USED_BY.exec(result.stderr)?.[1]);
    if (result.code === 0) campaign.count('done');
    else if (result.code === 1 && pids.has(holder) && holder !== result.pid) campaign.count('refused by name');
    else
      campaign.violation(`${what}: a process neither proceeded nor was refused by the name of another`, ending(result));
  }
}

async function onOneOutput(campaign, { input, reference }, count, name) {
  const folder = join(campaign.folder, name);
  mkdirSync(folder);
  const output = join(folder, 'out.jsonl');
  const begin = () => start([...generate(TINY, input, output, []), '--resume']);
  checkOneProceeded(campaign, name, await together(campaign, count, 0.4, begin, 0.3));
  // Whatever was killed: one more run ends it.
  const last = await run([...generate(TINY, input, output, []), '--resume']);
  if (last.code !== 0) campaign.violation(`${name}: the last run`, ending(last));
  if (readFileSync(output, 'utf8') !== reference)
    campaign.violation(`${name}: the output differs from that of one process`, output);
  checkFolder(campaign, name, folder, 'out.jsonl', 'out.jsonl.job.json');
  campaign.count('rounds');
}

/** All find the lock of a process that was killed: one of them takes it over. */
async function onStaleLock(campaign, { input, reference }, count, name) {
  const folder = join(campaign.folder, name);
  mkdirSync(folder);
  const output = join(folder, 'out.jsonl');
  const args = [...generate(TINY, input, output, []), '--resume'];
  const first = start(args);
  while (!existsSync(`${output}.lock`) && first.child.exitCode === null) await sleep(1);
  first.child.kill('SIGKILL');
  await first.ended;
  const results = await together(campaign, count, 0.02, () => start(args));
  checkOneProceeded(campaign, name, results);
  if (!results.some(({ code }) => code === 0))
    campaign.violation(
      `${name}: nobody took over the lock of a process that was killed`,
      results.map(ending).join('\n'),
    );
  if (readFileSync(output, 'utf8') !== reference)
    campaign.violation(`${name}: the output differs from that of one process`, output);
  checkFolder(campaign, name, folder, 'out.jsonl', 'out.jsonl.job.json');
  campaign.count('rounds');
}

async function onOneStore(campaign, { model, streamed, input, reference }, count, name) {
  const folder = join(campaign.folder, name);
  const disk = join(folder, 'disk');
  mkdirSync(disk, { recursive: true });
  const output = (at) => join(folder, `out-${at}.jsonl`);
  const begin = (at) => start([...generate(model, input, output(at), streamed), '--disk', disk]);
  const results = await together(campaign, count, 0.3, begin, 0.2, 3);
  for (const [at, result] of results.entries()) {
    if (result.killed) campaign.count('killed');
    else if (result.code !== 0) campaign.violation(`${name}: a first run beside others`, ending(result));
    else if (readFileSync(output(at), 'utf8') !== reference)
      campaign.violation(`${name}: the answers differ from those of one process`, output(at));
    else campaign.count('done');
  }
  const last = await run([...generate(model, input, join(folder, 'last.jsonl'), streamed), '--disk', disk]);
  if (last.code !== 0 || readFileSync(join(folder, 'last.jsonl'), 'utf8') !== reference)
    campaign.violation(`${name}: a run after them`, ending(last));
  checkFolder(campaign, name, disk, '.weights');
  if (readdirSync(disk).length !== 1)
    campaign.violation(`${name}: ${readdirSync(disk).length} stores, expected one`, disk);
  campaign.count('rounds');
}

async function onOneCache(campaign, { model, input, planned, reference }, count, name) {
  const folder = join(campaign.folder, name);
  const cache = join(folder, 'cache');
  const models = join(cache, 'spillway/models');
  mkdirSync(models, { recursive: true });
  const env = { XDG_CACHE_HOME: cache };
  const output = (at) => join(folder, `out-${at}.jsonl`);
  const begins = [
    (at) => start(generate(model, input, output(at), planned), { env }),
    () => start(['profile', '--json', '--output', join(folder, 'profile.json')], { env }),
    (at) => start([model, models, String(campaign.seed + at)], { env, script: PULLING }),
  ];
  const results = await together(campaign, count * begins.length, 0.3, (at) => begins[at % begins.length](at), 0.2, 6);
  for (const [at, result] of results.entries()) {
    if (result.killed) campaign.count('killed');
    else if (result.code !== 0)
      campaign.violation(
        `${name}: ${['generate', 'profile', 'pull'][at % begins.length]} beside others`,
        ending(result),
      );
    else if (at % begins.length === 0 && readFileSync(output(at), 'utf8') !== reference)
      campaign.violation(`${name}: the answers differ`, output(at));
    else campaign.count('done');
  }
  for (const last of [
    await run(generate(model, input, join(folder, 'last.jsonl'), planned), { env }),
    await run([model, models, 'whole'], { env, script: PULLING }),
  ]) {
    if (last.code !== 0) campaign.violation(`${name}: a run after them`, ending(last));
    if (/ignored|not used|damaged/.test(last.stderr))
      campaign.violation(`${name}: something kept is damaged`, last.stderr);
  }
  checkKept(campaign, name, join(cache, 'spillway'));
  campaign.count('rounds');
}

/** Profiles, corrections and hashes of models are whole, and nothing else lies there. */
function checkKept(campaign, name, cache) {
  checkFolder(campaign, name, cache, 'profiles', 'models', 'repacked', 'identities.json');
  for (const [folder, ...endings] of [
    ['profiles', '.json'],
    ['models', '.gguf'],
    ['repacked', '.weights'],
  ]) {
    const path = join(cache, folder);
    if (!existsSync(path)) continue;
    checkFolder(campaign, name, path, ...endings);
  }
  const profiles = join(cache, 'profiles');
  const documents = existsSync(profiles)
    ? readdirSync(profiles)
        .filter((each) => each.endsWith('.json'))
        .map((file) => join(profiles, file))
    : [];
  for (const file of [...documents, join(cache, 'identities.json')].filter(existsSync)) {
    try {
      JSON.parse(readFileSync(file, 'utf8'));
    } catch (error) {
      campaign.violation(`${name}: ${file} is no JSON`, error.message);
    }
  }
}

/** What one process answers. */
async function referenceOf(campaign, model, input, flags, name) {
  const output = join(campaign.folder, name);
  const result = await run(generate(model, input, output, flags));
  if (result.code !== 0) throw new Error(`the reference failed: ${ending(result)}`);
  return readFileSync(output, 'utf8');
}

await runCampaign(
  {
    usage: USAGE,
    options: { rounds: { type: 'string', default: '6' }, only: { type: 'string' } },
    minutes: 40,
    done: 'rounds',
  },
  async (campaign) => {
    needBuild();
    const real = await realModel(campaign);
    const model = real ?? TINY;
    const rows = writeTokenRows(join(campaign.folder, 'rows.jsonl'), 2000);
    const few = writeTokenRows(join(campaign.folder, 'few.jsonl'), 8);
    const streamed = ['--policy', writeStreamingPolicy(join(campaign.folder, 'policy.json'))];
    const planned = real === undefined ? [] : ['--cpu-memory', '400MiB'];
    const tinyJob = { input: rows, reference: await referenceOf(campaign, TINY, rows, [], 'reference.jsonl') };
    const realJob = {
      model,
      input: few,
      streamed,
      planned,
      reference: await referenceOf(campaign, model, few, [], 'few-reference.jsonl'),
    };
    const kinds = {
      output: [onOneOutput, tinyJob],
      stale: [onStaleLock, tinyJob],
      store: [onOneStore, realJob],
      cache: [onOneCache, realJob],
    };
    for (let round = 0; round < campaign.number('rounds'); round++) {
      for (const [kind, [act, job]] of Object.entries(kinds)) {
        if (kind !== (campaign.values.only ?? kind)) continue;
        for (const count of [2, 4]) {
          if (!campaign.goesOn) return;
          await act(campaign, job, count, `${kind}-${count}-${round}`);
          campaign.say(`${kind}, ${count} processes, round ${round}: ${campaign.violations} violations`);
        }
      }
    }
  },
);
