// What a nightly campaign is: seeded, bounded in time, a folder of its own, one line of figures at the end, and a
// failure if anything was violated.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { readFlags, stopSignal } from '../../../bench/lib/flags.mjs';
import { seededRandom } from './random.mjs';

const COMMON_WORDS = `  --seed N      of all that is random (default 1)
  --minutes N   ends after this long, with what was done by then (default DEFAULT)
  --folder DIR  where its files go (default: the system's folder for temporary ones); removed unless something was violated`;

/** Begun by `runCampaign`; what it found goes through `violation`, what it did through `count`. */
class Campaign {
  #violations = 0;
  #figures = new Map();
  #start = performance.now();

  constructor(name, values, number, folder, signal) {
    this.name = name;
    this.values = values;
    this.number = number;
    this.folder = folder;
    this.signal = signal;
    this.seed = number('seed', 0);
    this.random = seededRandom(this.seed);
    this.deadline = this.#start + number('minutes') * 60_000;
  }

  get violations() {
    return this.#violations;
  }

  /** Whether there is time for more. */
  get goesOn() {
    return performance.now() < this.deadline && !this.signal.aborted;
  }

  /** Something that must not happen did; the campaign goes on, and fails. @param evidence where to look */
  violation(what, evidence = '') {
    this.#violations += 1;
    process.stdout.write(
      `VIOLATION ${this.#violations}: ${what}${evidence === '' ? '' : `\n    ${String(evidence).trim().replaceAll('\n', '\n    ')}`}\n`,
    );
  }

  count(figure, by = 1) {
    this.#figures.set(figure, (this.#figures.get(figure) ?? 0) + by);
  }

  /** A figure that is no sum. */
  set(figure, value) {
    this.#figures.set(figure, value);
  }

  figure(name) {
    return this.#figures.get(name) ?? 0;
  }

  say(words) {
    process.stderr.write(`${((performance.now() - this.#start) / 1000).toFixed(0).padStart(4)} s  ${words}\n`);
  }

  summary() {
    const seconds = (performance.now() - this.#start) / 1000;
    const figures = [...this.#figures].map(([name, value]) => `${name} ${value}`);
    return `${this.name}: ${[...figures, `seed ${this.seed}`, `${seconds.toFixed(0)} s`].join(', ')}; ${this.#violations} violations`;
  }
}

/**
 * Runs a campaign as a program: reads its flags, ends it with a summary on the last line, and with exit code 1 if
 * anything was violated or it did nothing.
 * @param usage what it does, in some lines; the flags of its own among them
 * @param options as of `parseArgs`, with those that all have added
 * @param done the figure that says that it did something
 */
export async function runCampaign({ usage, options = {}, minutes = 30, done }, main) {
  const name = basename(process.argv[1], '.mjs');
  const { values, number } = readFlags(
    `usage: node scripts/nightly/${name}.mjs [flags]\n${usage}\n${COMMON_WORDS.replace('DEFAULT', String(minutes))}`,
    {
      ...options,
      seed: { type: 'string', default: '1' },
      minutes: { type: 'string', default: String(minutes) },
      folder: { type: 'string', default: tmpdir() },
    },
  );
  const folder = mkdtempSync(join(values.folder, `spillway-${name}-`));
  const campaign = new Campaign(name, values, number, folder, stopSignal());
  try {
    await main(campaign);
  } catch (error) {
    if (!campaign.signal.aborted) campaign.violation('the campaign itself failed', error.stack);
  }
  if (!campaign.signal.aborted && process.exitCode === undefined && campaign.figure(done) === 0)
    campaign.violation(`nothing was done (${done}: 0)`);
  if (campaign.violations === 0) rmSync(folder, { recursive: true, force: true });
  else process.stdout.write(`its files: ${folder}\n`);
  process.stdout.write(`${campaign.summary()}\n`);
  // What a campaign leaves running (a hung worker, say) must not keep it from ending.
  process.exit(campaign.violations > 0 ? 1 : (process.exitCode ?? 0));
}
