// Kills `generate`, and tasks of encoders, at random moments and at changes of its files, resumes it, and holds what it ends with against an
// uninterrupted run.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, ROOT, start } from './lib/commandLine.mjs';
import {
  needBuild,
  realModel,
  TINY,
  tinyTextModel,
  writeStreamingPolicy,
  writeTextRows,
  writeTokenRows,
} from './lib/models.mjs';

const USAGE = `Kills runs of \`generate\`, and of \`embed\`, \`rerank\` and \`classify\` with encoders, with SIGKILL, half of them at a random moment, half at a random change of a file in the folders that they write to.
Each is resumed, killed again some times, and then run to its end: the output has to be that of a run that nobody killed, byte for byte
(as a set for \`--order completion\`), with no row lost or doubled, and nothing else may be left lying. Over both input formats, both orders and
changes between them, error rows tried again, models in memory and streamed from a store (tiny, and the small real one), interrupts between.
  --kills N     so many processes killed while they ran (default 200)
  --only NAME   scenarios whose name has this in it`;

/** Kills of one job before it may end. */
const MOST_KILLS = 6;
/** Moments up to this share of an uninterrupted run's time; what is longer than the run is no kill. */
const REACH = 1.05;

/** Queries with documents, all different. */
function writePairs(file, rows) {
  const words = 'who wrote faust goethe did it rained and is cold'.split(' ');
  const text = (at, length) => Array.from({ length }, (_, word) => words[(at * 7 + word * 3) % words.length]).join(' ');
  const row = (at) => ({
    id: at,
    query: text(at, 1 + (at % 7)),
    documents: Array.from({ length: 1 + (at % 5) }, (_, of) => text(at + of, 1 + ((at + of) % 20))),
  });
  writeFileSync(file, Array.from({ length: rows }, (_, at) => `${JSON.stringify(row(at))}\n`).join(''));
  return file;
}

/**
 * Each: a command, `generate` where none is said, a model, an input, the flags of every run, and the orders that its runs take in turn; the last run has the
 * first of them.
 */
async function scenarios(campaign, text, real) {
  const files = join(campaign.folder, 'inputs');
  mkdirSync(files);
  const tokens = writeTokenRows(join(files, 'tokens.jsonl'), 400, 50);
  const lines = writeTextRows(join(files, 'lines.txt'), 300);
  const few = writeTextRows(join(files, 'few.txt'), 16);
  const streamed = ['--policy', writeStreamingPolicy(join(files, 'policy.json'))];
  const jsonl = { model: TINY, input: tokens, flags: ['--max-new-tokens', '16', '--ignore-eos', '--logprobs', '1'] };
  const encoder = (name) => join(ROOT, 'test/fixtures/encoders', name);
  const embed = { command: 'embed', model: encoder('deberta-v3'), input: tokens, flags: ['--pooling', 'mean'] };
  const plain = { model: text, input: lines, flags: ['--input-format', 'text', '--max-new-tokens', '16'] };
  return [
    { name: 'jsonl input', ...jsonl, orders: ['input'] },
    { name: 'jsonl completion', ...jsonl, orders: ['completion'] },
    { name: 'jsonl both', ...jsonl, orders: ['input', 'completion'] },
    { name: 'jsonl both retry', ...jsonl, orders: ['input', 'completion'], resume: ['--retry-errors'] },
    { name: 'text input', ...plain, orders: ['input'] },
    { name: 'text completion streamed', ...plain, flags: [...plain.flags, ...streamed], orders: ['completion'] },
    { name: 'encoder embed both', ...embed, orders: ['input', 'completion'] },
    { name: 'encoder embed streamed', ...embed, flags: [...embed.flags, ...streamed], orders: ['input'] },
    {
      name: 'encoder rerank both',
      command: 'rerank',
      model: encoder('bert-pairs'),
      input: writePairs(join(files, 'pairs.jsonl'), 150),
      flags: [],
      orders: ['input', 'completion'],
    },
    {
      name: 'encoder classify completion',
      command: 'classify',
      model: encoder('xlm-roberta-labels'),
      input: tokens,
      flags: [],
      orders: ['completion'],
    },
    { name: 'jsonl input streamed', ...jsonl, flags: [...jsonl.flags, ...streamed], orders: ['input'] },
    ...(real === undefined
      ? []
      : [
          {
            name: 'real text both repacked',
            model: real,
            input: few,
            flags: ['--input-format', 'text', '--max-new-tokens', '4', ...streamed],
            orders: ['input', 'completion'],
          },
          {
            name: 'real text input planned',
            model: real,
            input: few,
            flags: ['--input-format', 'text', '--max-new-tokens', '4', '--cpu-memory', '320MiB'],
            orders: ['input'],
          },
        ]),
  ].filter(({ name }) => name.includes(campaign.values.only ?? ''));
}

/** The folders of one job, empty. */
function place(folder) {
  const paths = { folder, output: join(folder, 'out.jsonl'), disk: join(folder, 'disk'), cache: join(folder, 'cache') };
  paths.profiles = join(paths.cache, 'spillway/profiles');
  for (const path of [paths.disk, paths.profiles]) mkdirSync(path, { recursive: true });
  return paths;
}

function startRun({ command = 'generate', model, input, flags, resume = [] }, { output, disk, cache }, order, resumes) {
  const again = resumes ? ['--resume', ...resume] : [];
  return start(
    [
      command,
      '--model',
      model,
      '--input',
      input,
      '--output',
      output,
      '--disk',
      disk,
      '--order',
      order,
      ...flags,
      ...again,
    ],
    { env: { XDG_CACHE_HOME: cache } },
  );
}

/** Calls `onChange` with each change of a folder that a run writes to. @returns how to stop */
function watchPlace({ folder, disk, profiles }, onChange) {
  const watchers = [folder, disk, profiles].map((path) => watch(path, onChange));
  return () => watchers.forEach((watcher) => watcher.close());
}

/**
 * A run that nobody kills: what it writes, how long it takes, how often its files change. @returns undefined where it
 * fails
 */
async function reference(campaign, scenario, paths) {
  let changes = 0;
  const stop = watchPlace(paths, () => {
    changes += 1;
  });
  const result = await startRun(scenario, paths, scenario.orders[0], false).ended;
  stop();
  if (result.hung || ![0, 4].includes(result.code)) {
    campaign.violation(`${scenario.name}: the uninterrupted run failed`, ending(result));
    return undefined;
  }
  const content = readFileSync(paths.output, 'utf8');
  const rows = content.split('\n').slice(0, -1);
  const lineOf = new Map(rows.map((line) => [JSON.parse(line).index, line]));
  return { code: result.code, seconds: result.seconds, changes, content, rows, lineOf };
}

/** Kills a run at a moment of its own. @returns how it ended; `signal` is SIGKILL where the kill came in time */
async function killedRun(campaign, running, expected, paths) {
  const { random } = campaign;
  if (random.chance(0.5)) {
    const timer = setTimeout(() => running.child.kill('SIGKILL'), random.next() * REACH * expected.seconds * 1000);
    const result = await running.ended;
    clearTimeout(timer);
    return result;
  }
  let left = random.whole(1, expected.changes);
  const late = random.pick([0, 0, 1, 3]);
  const stop = watchPlace(paths, () => {
    left -= 1;
    if (left === 0) setTimeout(() => running.child.kill('SIGKILL'), late);
  });
  const result = await running.ended;
  stop();
  return result;
}

/** After a kill: whole lines are rows of the reference, each at most once. @returns the first thing that is wrong */
function damage({ output }, { lineOf }) {
  if (!existsSync(output)) return undefined;
  const seen = new Set();
  for (const line of readFileSync(output, 'utf8').split('\n').slice(0, -1)) {
    let index;
    try {
      ({ index } = JSON.parse(line));
    } catch {
      return `a whole line that is no JSON: ${line.slice(0, 200)}`;
    }
    if (seen.has(index)) return `row ${index} stands twice`;
    seen.add(index);
    if (lineOf.get(index) !== line)
      return `row ${index} is ${line.slice(0, 200)}, expected ${lineOf.get(index)?.slice(0, 200)}`;
  }
  return undefined;
}

/** What lies where nothing should. */
function leftovers({ folder, disk, profiles, cache }) {
  const stray = (path, ours) =>
    readdirSync(path)
      .filter((name) => !ours(name))
      .map((name) => join(path, name));
  const stores = readdirSync(disk).filter((name) => name.endsWith('.weights'));
  return [
    ...stray(folder, (name) => ['out.jsonl', 'out.jsonl.job.json', 'disk', 'cache'].includes(name)),
    ...stray(disk, (name) => name.endsWith('.weights')),
    ...stray(profiles, (name) => name.endsWith('.json')),
    ...stray(join(cache, 'spillway'), (name) => ['profiles', 'identities.json', 'stores'].includes(name)),
    ...stores.slice(1).map((name) => `a second store ${name}`),
  ];
}

/**
 * The finished output against the reference: the bytes, or for an order that is nobody's the set of rows. @returns what
 * is wrong
 */
function difference({ output }, expected, exact) {
  const content = readFileSync(output, 'utf8');
  const rows = content.split('\n').slice(0, -1);
  const same = exact
    ? content === expected.content
    : [...rows].sort().join('\n') === [...expected.rows].sort().join('\n');
  return same
    ? undefined
    : `${rows.length} rows, expected ${expected.rows.length}${exact ? ' in their order' : ''}: ${damage({ output }, expected) ?? 'another order, or rows missing'}`;
}

async function jobOf(campaign, scenario, expected, paths, name) {
  const { random } = campaign;
  const what = `${scenario.name}, ${name}`;
  const moments = [];
  for (
    let kills = random.whole(1, MOST_KILLS), runs = 0;
    kills > 0 && campaign.goesOn && campaign.figure('killed') < campaign.number('kills');
    kills--, runs++
  ) {
    const running = startRun(scenario, paths, scenario.orders[runs % scenario.orders.length], true);
    // Now and then an interrupt, which leaves rows ahead of their turn.
    const interrupted = random.chance(0.15);
    if (interrupted) void sleep(random.next() * expected.seconds * 1000).then(() => running.child.kill('SIGTERM'));
    const result = interrupted ? await running.ended : await killedRun(campaign, running, expected, paths);
    moments.push(`${result.seconds.toFixed(2)} s ${result.signal ?? result.code}`);
    if (result.signal === 'SIGKILL' && !result.hung) campaign.count('killed');
    // Before the program listens to it, the signal ends the process by itself.
    else if (result.signal === 'SIGTERM' || result.code === 143) campaign.count('interrupted');
    else if (result.code === expected.code && result.signal === null) campaign.count('ended before');
    else campaign.violation(`${what}: a run that was resumed (${moments.join(', ')})`, ending(result));
    const wrong = damage(paths, expected);
    if (wrong !== undefined) campaign.violation(`${what}: after ${moments.join(', ')}`, wrong);
  }
  const last = await startRun(scenario, paths, scenario.orders[0], true).ended;
  const evidence = `killed and resumed: ${moments.join(', ')}; ${paths.folder}`;
  if (last.hung || last.code !== expected.code)
    return campaign.violation(
      `${what}: the last run ended otherwise than with ${expected.code}`,
      `${ending(last)}\n${evidence}`,
    );
  // Error rows that were tried again stand at the end of an output in order of completion, and in their place in one of
  // the input.
  const wrong = difference(paths, expected, scenario.orders[0] === 'input');
  if (wrong !== undefined) campaign.violation(`${what}: ${wrong}`, evidence);
  const left = leftovers(paths);
  if (left.length > 0) campaign.violation(`${what}: left lying`, `${left.join('\n')}\n${evidence}`);
  campaign.count('jobs');
}

await runCampaign(
  {
    usage: USAGE,
    options: { kills: { type: 'string', default: '200' }, only: { type: 'string' } },
    minutes: 45,
    done: 'killed',
  },
  async (campaign) => {
    needBuild();
    const all = await scenarios(campaign, await tinyTextModel(campaign), await realModel(campaign));
    const references = new Map();
    for (let job = 0; campaign.goesOn && campaign.figure('killed') < campaign.number('kills'); job++) {
      const scenario = all[job % all.length];
      if (!references.has(scenario))
        references.set(
          scenario,
          await reference(campaign, scenario, place(join(campaign.folder, `reference-${references.size}`))),
        );
      const expected = references.get(scenario);
      if (expected === undefined) continue;
      const [folder, before] = [join(campaign.folder, `job-${job}`), campaign.violations];
      await jobOf(campaign, scenario, expected, place(folder), `job ${job}`);
      // Stores are large.
      if (campaign.violations === before) rmSync(folder, { recursive: true });
      campaign.say(`${scenario.name}: ${campaign.figure('killed')} killed`);
    }
    if (campaign.figure('killed') < campaign.number('kills')) campaign.set('wanted', campaign.number('kills'));
  },
);
