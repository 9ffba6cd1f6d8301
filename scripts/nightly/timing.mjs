// What time does to a run must not show in what comes of it: rows are answered, or refused, alike however often the
// process is stopped, however little of a processor it has, and whoever is beside it.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cgroupController, removeCgroup } from '../../bench/lib/cgroup.mjs';
import { runCampaign } from './lib/Campaign.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, tinyTextModel } from './lib/models.mjs';

const USAGE = `Draws rows (schemas, patterns, choices, long prompts, conversations, texts that a model's own pattern is slow on), runs \`generate\` over them left alone, and again under
SIGSTOP and SIGCONT at drawn moments, in a cgroup with a quarter of a processor (root, Linux; left out, and said, where there can be none), and beside busy neighbours.
The outputs have to be equal byte for byte, errors included.
  --runs N      disturbed ones (default 500)
  --only KIND   stopped, throttled or beside`;

/** A process that is stopped most of the time, on a machine that has others to run, takes many times as long. */
const HANG_SECONDS = 1800;
const ROWS = 12;
/** Runs that are set beside one that is left alone. */
const OF_ONE_INPUT = 4;
const PERIOD_MICROSECONDS = 100_000;
/** Digits in threes, counted from the right, as some real tokenizers have it. */
const SLOW_PATTERN = String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))| ?\p{L}+|\s+|[^\s\p{L}\p{N}]+`;

const schemaOf = (random, at) =>
  random.pick([
    () => ({ enum: Array.from({ length: random.whole(2, 3000) }, (_, k) => `c ${at} ${(k * 7919) % 1_000_003}`) }),
    () => ({ type: 'string', pattern: random.pick(['^(a|b)+c?$', '^[a-f]{1,9}(,[a-f]{1,9}){0,3}$', '^(x+x+)+y$']) }),
    () => ({
      type: 'object',
      properties: Object.fromEntries(
        Array.from({ length: random.whole(1, 40) }, (_, k) => [`k${k}`, { type: random.pick(['integer', 'boolean']) }]),
      ),
      required: ['k0'],
      additionalProperties: false,
    }),
    () => ({
      type: 'array',
      items: { enum: Array.from({ length: random.whole(2, 200) }, (_, k) => k * k) },
      maxItems: 5,
    }),
    () => ({
      allOf: Array.from({ length: random.whole(2, 8) }, () => ({ anyOf: [{ type: 'integer' }, { minLength: 2 }] })),
    }),
  ])();

/** A row, as a line. */
function drawnLine(random, at) {
  const prompt = `row ${at} ${'what is so '.repeat(random.whole(0, 8))}`;
  const row = random.pick([
    () => ({ prompt }),
    () => ({ prompt, responseFormat: { type: 'json_schema', schema: schemaOf(random, at) } }),
    () => ({ prompt, responseFormat: { type: 'regex', pattern: '[a-z]{1,20}( [a-z]{1,20})*' } }),
    () => ({ prompt, responseFormat: { type: 'choices', choices: ['yes', 'no', `perhaps ${at}`] } }),
    () => ({ prompt: random.pick(['7', 'word ', '漢字', 'ab']).repeat(random.whole(1, 300_000)) }),
    () => ({ prompt: `${'7'.repeat(random.whole(1, 400_000))} and` }),
    () => ({
      messages: Array.from({ length: random.whole(1, 400) }, (_, k) => ({
        role: k % 2 === 0 ? 'user' : 'assistant',
        content: 'a'.repeat(random.whole(1, 40)),
      })),
    }),
  ])();
  return JSON.stringify({
    id: at,
    maxNewTokens: random.whole(1, 16),
    seed: at,
    temperature: random.pick([0, 1]),
    ...row,
  });
}

/** Stops the process and lets it go on, until it ends. */
async function stopped(random, { child, ended }) {
  let runs = true;
  void ended.then(() => (runs = false));
  await sleep(random.whole(50, 900));
  while (runs) {
    child.kill('SIGSTOP');
    await sleep(random.whole(20, 1200));
    child.kill('SIGCONT');
    await sleep(random.whole(5, 250));
  }
}

/** A cgroup with a quarter of a processor. @throws Error where there can be none */
function throttledGroup() {
  const { version, root } = cgroupController('cpu', 'cpu.cfs_quota_us');
  const folder = join(root, `spillway-timing-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  try {
    const quota = PERIOD_MICROSECONDS / 4;
    if (version === 1) writeFileSync(join(folder, 'cpu.cfs_quota_us'), String(quota));
    else writeFileSync(join(folder, 'cpu.max'), `${quota} ${PERIOD_MICROSECONDS}`);
  } catch (error) {
    rmdirSync(folder);
    throw error;
  }
  return folder;
}

const DISTURBANCES = {
  async stopped(campaign, begin) {
    const run = begin();
    await stopped(campaign.random, run);
    return run.ended;
  },
  async throttled(campaign, begin) {
    const folder = throttledGroup();
    try {
      const run = begin();
      writeFileSync(join(folder, 'cgroup.procs'), String(run.child.pid));
      return await run.ended;
    } finally {
      removeCgroup(folder);
    }
  },
  async beside(campaign, begin) {
    const neighbours = Array.from({ length: 3 }, () =>
      spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
    );
    try {
      return await begin().ended;
    } finally {
      for (const neighbour of neighbours) neighbour.kill('SIGKILL');
    }
  },
};

/** The model, and one whose own pattern is slow on some texts. */
async function drawnModels(campaign) {
  const model = await tinyTextModel(campaign);
  const file = join(model, 'tokenizer.json');
  const tokenizer = JSON.parse(readFileSync(file, 'utf8'));
  tokenizer.pre_tokenizer = {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern: { Regex: SLOW_PATTERN }, behavior: 'Isolated', invert: false },
      { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    ],
  };
  writeFileSync(file, JSON.stringify(tokenizer));
  return model;
}

async function oneInput(campaign, model, kinds, number) {
  const { random } = campaign;
  const folder = join(campaign.folder, `input-${number}`);
  mkdirSync(folder);
  const input = join(folder, 'rows.jsonl');
  writeFileSync(input, Array.from({ length: ROWS }, (_, at) => `${drawnLine(random, at)}\n`).join(''));
  const flags = ['--batch-size', String(random.pick([1, 2, 8])), '--batches', String(random.pick([1, 2]))];
  const begin = (output) =>
    start(
      [
        ...['generate', '--model', model, '--input', input, '--output', output, '--cpu-memory', '600MiB'],
        ...['--policy', 'default', '--learn', 'off', ...flags],
      ],
      { hangSeconds: HANG_SECONDS, env: { XDG_CACHE_HOME: join(campaign.folder, 'cache') } },
    );
  const alone = join(folder, 'alone.jsonl');
  const first = await begin(alone).ended;
  if (campaign.signal.aborted) return;
  const before = campaign.violations;
  if (first.hung || ![0, 4].includes(first.code)) campaign.violation(`input ${number}, left alone`, ending(first));
  const expected = existsSync(alone) ? readFileSync(alone) : Buffer.alloc(0);
  campaign.count('rows with errors', expected.toString().split('"finishReason":"error"').length - 1);
  for (let run = 0; run < OF_ONE_INPUT && campaign.figure('runs') < campaign.number('runs'); run += 1) {
    const kind = random.pick(kinds);
    const output = join(folder, `${kind}-${run}.jsonl`);
    const result = await DISTURBANCES[kind](campaign, () => begin(output));
    if (campaign.signal.aborted) return;
    campaign.count('runs');
    campaign.count(kind);
    const what = `input ${number}, ${kind}, ${flags.join(' ')}`;
    if (result.hung || result.code !== first.code) campaign.violation(`${what}: ended otherwise`, ending(result));
    else if (!readFileSync(output).equals(expected))
      campaign.violation(`${what}: another output`, `${alone} ${output}`);
  }
  if (campaign.violations === before) rmSync(folder, { recursive: true });
}

/** Those that can be had here. */
function kindsOf(campaign) {
  const kinds = Object.keys(DISTURBANCES).filter((kind) => kind === (campaign.values.only ?? kind));
  try {
    removeCgroup(throttledGroup());
  } catch (error) {
    campaign.say(`without cgroups: ${error.message}`);
    return kinds.filter((kind) => kind !== 'throttled');
  }
  return kinds;
}

const options = { runs: { type: 'string', default: '500' }, only: { type: 'string' } };
await runCampaign({ usage: USAGE, options, minutes: 120, done: 'runs' }, async (campaign) => {
  needBuild();
  const model = await drawnModels(campaign);
  const kinds = kindsOf(campaign);
  if (kinds.length === 0) return;
  for (let number = 0; campaign.figure('runs') < campaign.number('runs') && campaign.goesOn; number += 1) {
    await oneInput(campaign, model, kinds, number);
    campaign.say(`${campaign.figure('runs')} runs, ${campaign.violations} violations`);
  }
});
