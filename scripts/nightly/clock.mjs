// Runs whose clock of the day is wrong from the start, or set back and forth meanwhile.
import { cpSync, existsSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCampaign } from './lib/Campaign.mjs';
import { clockEnvironment, faketimeLibrary, setClock } from './lib/clock.mjs';
import { ending, start } from './lib/commandLine.mjs';
import { needBuild, TINY, tinyTextModel, writeStreamingPolicy, writeTextRows, writeTokenRows } from './lib/models.mjs';

const USAGE = `Runs \`generate\`, killed and resumed, with the clock of the day set back and forth, before and during runs, by libfaketime (Debian, Ubuntu: apt-get install
libfaketime; never the machine's own clock): the output has to be that of a run with the right clock, statistics, trace and progress may hold no negative or absurd
figure, the watchdog of patterns ends what does not end and nothing else, locks of others that live are believed and those of the dead lapse.
  --rounds N    of each kind (default 4)
  --only KIND   runs, watchdog, profile or lock`;

const OFFSETS = ['-20y', '-1d', '-3600', '-61', '+61', '+3600', '+1d', '+13y', '+60y'];
/** What a run may take by its own figures over what it took, and a little for starting. */
const MOST_OFF = 1.2;
/** A holder touches its lock every ten seconds and is given up after sixty. */
const LAPSE_SECONDS = 60;

/** All numbers of a document, each with its path. */
function* numbersIn(value, path = '') {
  if (typeof value === 'number') yield [path, value];
  else if (value !== null && typeof value === 'object')
    for (const [key, each] of Object.entries(value)) yield* numbersIn(each, `${path}.${key}`);
}

/** Starts a run under a clock that is moved until it ends. @param offsets in turn, at random times; one stays */
function startUnderClock(campaign, library, args, offsets, options = {}) {
  const { random } = campaign;
  const file = join(campaign.folder, `clock-${campaign.figure('runs')}`);
  campaign.count('runs');
  setClock(file, offsets[0]);
  const running = start(args, { ...options, env: { ...options.env, ...clockEnvironment(library, file) } });
  let goesOn = offsets.length > 1;
  void running.ended.then(() => {
    goesOn = false;
  });
  void (async () => {
    for (let at = 1; goesOn; at++) {
      await sleep(random.whole(5, 120));
      setClock(file, offsets[at % offsets.length]);
    }
  })();
  return running;
}

/** One offset for the whole run, or several in turn. */
function someClock({ random }) {
  return random.chance(0.4) ? [random.pick(OFFSETS)] : Array.from({ length: 12 }, () => random.pick(OFFSETS));
}

/** The documents that a run wrote: no figure below 0 or beyond what was lived through. */
function checkReports(campaign, what, stats, trace, seconds) {
  const document = JSON.parse(readFileSync(stats, 'utf8'));
  for (const [path, value] of numbersIn(document)) {
    if (!Number.isFinite(value) || value < 0) campaign.violation(`${what}: --stats has ${value} at ${path}`);
    if (/\.seconds\.\w+$/.test(path) && value > seconds * MOST_OFF + 1)
      campaign.violation(`${what}: --stats has ${value} s at ${path}, of a run of ${seconds.toFixed(1)} s`);
  }
  if (document.seconds.wall <= 0) campaign.violation(`${what}: --stats has a run of ${document.seconds.wall} s`);
  for (const { name, ph, ts = 0, dur = 0 } of JSON.parse(readFileSync(trace, 'utf8')).traceEvents ?? []) {
    if (ts >= 0 && dur >= 0 && (ts + dur) / 1e6 < seconds * MOST_OFF + 1) continue;
    campaign.violation(`${what}: the trace has ${name} (${ph}) at ${ts} µs for ${dur} µs`);
    break;
  }
}

async function runs(campaign, library, jobs, name) {
  const { random, folder } = campaign;
  const { input, flags, reference } = random.pick(jobs);
  const file = (ends) => join(folder, `${name}.${ends}`);
  const args = [
    'generate',
    '--input',
    input,
    '--output',
    file('jsonl'),
    '--disk',
    file('disk'),
    '--progress',
    'on',
    '--stats',
    file('stats'),
    '--trace',
    file('trace'),
    ...flags,
    '--resume',
  ];
  for (let kill = random.whole(0, 2); kill > 0; kill--) {
    const { child, ended } = startUnderClock(campaign, library, args, someClock(campaign));
    void sleep(random.next() * 2500).then(() => child.kill('SIGKILL'));
    await ended;
  }
  const result = await startUnderClock(
    campaign,
    library,
    [...args.slice(0, -1), ...(random.chance(0.5) ? ['--resume'] : ['--overwrite'])],
    someClock(campaign),
  ).ended;
  if (result.code !== 0) return campaign.violation(`${name}: a run under another clock`, ending(result));
  if (readFileSync(file('jsonl'), 'utf8') !== reference)
    campaign.violation(`${name}: the output differs from that under the right clock`, file('jsonl'));
  if (/NaN|Infinity|(^|[ :(])-\d/m.test(result.stderr))
    campaign.violation(`${name}: an absurd figure in what it says`, result.stderr);
  const { rows } = JSON.parse(readFileSync(file('stats'), 'utf8'));
  // Where a killed run had finished, nothing was left to do.
  if (rows.done > 0) checkReports(campaign, name, file('stats'), file('trace'), result.seconds);
}

/**
 * A model whose pattern backtracks without end on some rows: what happens is what happens under the right clock, and no
 * sooner or later.
 */
async function watchdog(campaign, library, { input, model, expected }, name) {
  const output = join(campaign.folder, `${name}.jsonl`);
  const result = await startUnderClock(campaign, library, patternJob(model, input, output), someClock(campaign), {
    hangSeconds: 60,
  }).ended;
  const outcome = outcomeOf(result, output);
  if (outcome !== expected)
    campaign.violation(
      `${name}: a pattern without end`,
      `${outcome.slice(0, 400)}\nunder the right clock: ${expected.slice(0, 400)}`,
    );
}

function patternJob(model, input, output) {
  return [
    'generate',
    '--model',
    model,
    '--input',
    input,
    '--input-format',
    'text',
    '--output',
    output,
    '--max-new-tokens',
    '4',
  ];
}

function outcomeOf(result, output) {
  return `${result.hung ? 'hung' : result.code} ${result.code === 2 ? result.stderr : ''}${existsSync(output) ? readFileSync(output, 'utf8') : ''}`;
}

async function watchdogMaterial(campaign, healthy) {
  const [model, input, output] = [
    spoiled(healthy),
    join(campaign.folder, 'endless.txt'),
    join(campaign.folder, 'endless.jsonl'),
  ];
  writeFileSync(
    input,
    Array.from({ length: 60 }, (_, at) => (at % 30 === 17 ? `${'a'.repeat(60)}!\n` : `Line ${at}.\n`)).join(''),
  );
  const result = await start(patternJob(model, input, output)).ended;
  // Matched by counted steps it ends, or is refused: under whatever clock alike.
  if (result.hung || ![0, 2, 4].includes(result.code))
    throw new Error(`a pattern without end was expected to end, or to be refused: ${ending(result)}`);
  return { model, input, expected: outcomeOf(result, output) };
}

async function profile(campaign, library, _, name) {
  const env = { XDG_CACHE_HOME: join(campaign.folder, name) };
  const output = join(campaign.folder, `${name}.json`);
  const result = await startUnderClock(
    campaign,
    library,
    ['profile', '--json', '--output', output, '--disk', join(campaign.folder, 'profiled')],
    someClock(campaign),
    { env },
  ).ended;
  if (result.code !== 0) return campaign.violation(`${name}: measuring under another clock`, ending(result));
  for (const [path, value] of numbersIn(JSON.parse(readFileSync(output, 'utf8')))) {
    if (!Number.isFinite(value) || value < 0) campaign.violation(`${name}: the profile has ${value} at ${path}`);
  }
}

/** The lock of a process on another machine, which one cannot see: touched by it every now and then while it lives. */
async function lock(campaign, library, { input, tokens }, name) {
  const { random } = campaign;
  const output = join(campaign.folder, `${name}.jsonl`);
  const lives = random.chance(0.5);
  writeFileSync(
    `${output}.lock`,
    JSON.stringify({ pid: 7, machine: 'another machine', started: '1', nonce: '0123456789abcdef' }),
  );
  const args = ['generate', '--model', TINY, '--input', input, '--output', output, ...tokens, '--resume'];
  const offset = random.pick(OFFSETS);
  const touch = () => utimesSync(`${output}.lock`, new Date(), new Date());
  const heartbeat = lives ? setInterval(touch, 5000) : undefined;
  try {
    for (const begin = performance.now(); ;) {
      const result = await startUnderClock(campaign, library, args, [offset]).ended;
      const waited = (performance.now() - begin) / 1000;
      if (lives && result.code !== 1)
        return campaign.violation(
          `${name}: the lock of a process that lives was not believed, under a clock that is off by ${offset}`,
          ending(result),
        );
      if (lives && waited > 1.2 * LAPSE_SECONDS) return undefined;
      if (!lives && result.code === 0) return undefined;
      // A clock that is slow by as much sees a touch of its future first, which seems fresh, too.
      if (!lives && waited > 3 * LAPSE_SECONDS)
        return campaign.violation(
          `${name}: the lock of a process that is dead did not lapse within ${waited.toFixed(0)} s, under a clock that is off by ${offset}`,
          ending(result),
        );
      await sleep(3000);
    }
  } finally {
    clearInterval(heartbeat);
  }
}

/** The text model with a pattern that takes exponential time for what does not match it. */
function spoiled(healthy) {
  const model = `${healthy}-spoiled`;
  cpSync(healthy, model, { recursive: true });
  const path = join(model, 'tokenizer.json');
  const tokenizer = JSON.parse(readFileSync(path, 'utf8'));
  tokenizer.pre_tokenizer = {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern: { Regex: '(a|aa)+$|[^a]' }, behavior: 'Isolated', invert: false },
      { ...tokenizer.pre_tokenizer, use_regex: false },
    ],
  };
  writeFileSync(path, JSON.stringify(tokenizer));
  return model;
}

async function withReference(job, campaign, at) {
  const output = join(campaign.folder, `reference-${at}.jsonl`);
  const result = await start([
    'generate',
    '--input',
    job.input,
    '--output',
    output,
    '--disk',
    join(campaign.folder, 'reference-disk'),
    ...job.flags,
  ]).ended;
  if (result.code !== 0) throw new Error(`the reference failed: ${ending(result)}`);
  return { ...job, reference: readFileSync(output, 'utf8') };
}

await runCampaign(
  {
    usage: USAGE,
    options: { rounds: { type: 'string', default: '4' }, only: { type: 'string' } },
    minutes: 40,
    done: 'runs',
  },
  async (campaign) => {
    needBuild();
    const library = faketimeLibrary();
    if (library === undefined) {
      campaign.say('libfaketime is missing; install it with: apt-get install libfaketime');
      campaign.count('runs', 0);
      campaign.set('skipped', 'all, without libfaketime');
      process.exitCode = 77;
      return;
    }
    const { folder } = campaign;
    const text = await tinyTextModel(campaign);
    const tokens = ['--max-new-tokens', '16', '--ignore-eos'];
    const input = writeTokenRows(join(folder, 'rows.jsonl'), 800);
    const lines = writeTextRows(join(folder, 'lines.txt'), 300);
    const streamed = ['--policy', writeStreamingPolicy(join(folder, 'policy.json'))];
    const plain = [
      { input, flags: ['--model', TINY, ...tokens] },
      { input, flags: ['--model', TINY, ...tokens, ...streamed] },
      { input: lines, flags: ['--model', text, '--input-format', 'text', ...tokens] },
    ];
    const jobs = [];
    for (const [at, job] of plain.entries()) jobs.push(await withReference(job, campaign, at));
    const kinds = {
      runs: [runs, jobs],
      profile: [profile],
      lock: [lock, { input, tokens }],
      watchdog: [watchdog, await watchdogMaterial(campaign, text)],
    };
    for (let round = 0; round < campaign.number('rounds'); round++) {
      for (const [kind, [act, material]] of Object.entries(kinds)) {
        if (kind !== (campaign.values.only ?? kind) || !campaign.goesOn) continue;
        await act(campaign, library, material, `${kind}-${round}`);
        campaign.say(`${kind}, round ${round}: ${campaign.violations} violations`);
      }
    }
  },
);
