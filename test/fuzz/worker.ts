// One process of the fuzzer: runs case after case and tells its parent (scripts/nightly/fuzz.mjs) what came of them.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Coverage, prepareCoverage } from './coverage.js';
import { peakBytes, resetPeak } from './memory.js';
import { mixed, Random } from './Random.js';
import type { CaseOutcome, Recipe } from './runCase.js';

/** What the parent says, once. */
interface Task {
  readonly seed: number;
  /** Numbers of the first case and of the one after the last. */
  readonly first: number;
  readonly end: number;
  /** Cases to run as they are; the others are made up. */
  readonly given: readonly Recipe[];
  /** Cases to go on from: they reached what none had before. */
  readonly corpus: readonly Recipe[];
  readonly blocks: readonly number[];
  /** Of the well-formed models, those whose name matches are changed. */
  readonly models: string;
  readonly folder: string;
  /** Every so many cases one goes through the command line, too; 0 for none. */
  readonly commandLine: number;
  readonly most: { readonly seconds: number; readonly residentBytes: number };
}

prepareCoverage();
const { loadAddon } = await import('../../src/bindings/loadAddon.js');
const { baseImages } = await import('./images/baseImages.js');
const { Finding, runCase } = await import('./runCase.js');
const { checkCommandLine } = await import('./commandLine.js');
const bases = new Map((await baseImages()).map((base) => [base.name, base]));
const coverage = new Coverage(loadAddon());
const tell = (message: object): unknown => process.send?.(message);

/** What another process has reached: cases to go on from, and blocks that are not new. */
interface News {
  readonly blocks: readonly number[];
  readonly recipe?: Recipe;
}

const corpus: Recipe[] = [];
process.once('message', (task: Task) => {
  void work(task).then(() => process.disconnect());
  process.on('message', ({ blocks, recipe }: News) => {
    coverage.restore(blocks);
    if (recipe) corpus.push(recipe);
  });
});
process.once('disconnect', () => process.exit());
tell({ ready: [...bases.keys()], native: coverage.native });

async function work(task: Task): Promise<void> {
  const names = [...bases.keys()].filter((name) => new RegExp(task.models).test(name));
  if (names.length === 0)
    throw new Error(`found the models ${task.models}, expected some of ${[...bases.keys()].join(', ')}`);
  coverage.restore(task.blocks);
  corpus.push(...task.corpus);
  for (let number = task.first; number < task.end; number++) {
    const recipe = task.given[number] ?? madeUp(task, names, number);
    // Seen by the parent however this process ends.
    writeFileSync(join(task.folder, 'current.json'), JSON.stringify({ number, recipe }));
    const result = await timed(recipe, task, task.commandLine > 0 && number % task.commandLine === 0);
    const blocks = coverage.take();
    // A model that does not open leads nowhere new.
    if (blocks.length > 0 && result.generated.any) corpus.push(recipe);
    tell({ number, recipe, ...result, blocks });
    if (result.findings.length > 0) await flushed();
  }
}

/** What is told of a case: what is wrong about it, with where it came from, and what it took. */
interface Result {
  readonly generated: CaseOutcome['generated'];
  readonly refusals: readonly string[];
  readonly findings: readonly { readonly finding: string; readonly stack: string }[];
  readonly seconds: number;
  readonly residentBytes: number;
}

/**
 * What an engine gets besides what the fuzzer itself holds, the well-formed models above all: that differs by tens of
 * megabytes from machine to machine.
 */
const ENGINE_BYTES = 128 * 2 ** 20;

async function timed(recipe: Recipe, { folder, most }: Task, commandLine: boolean): Promise<Result> {
  const base = bases.get(recipe.base);
  if (base === undefined)
    throw new Error(`found the base ${recipe.base}, expected one of ${[...bases.keys()].join(', ')}`);
  resetPeak();
  const processor = process.cpuUsage();
  const start = performance.now();
  const { path, opened, generated, refusals, findings } = await runCase(
    base,
    recipe,
    join(folder, 'case'),
    Math.max(0.75 * most.residentBytes, process.memoryUsage.rss() + ENGINE_BYTES),
  );
  const { user, system } = process.cpuUsage(processor);
  // Whichever is less: other work on the machine makes the clock go on, threads the processor's time.
  const seconds = Math.min((performance.now() - start) / 1000, (user + system) / 1e6);
  const residentBytes = peakBytes();
  if (commandLine) {
    try {
      // Whether there is memory enough depends on what the process has already.
      checkCommandLine(path, join(folder, 'home'), refusals.includes('memory-budget') ? undefined : opened);
    } catch (error) {
      findings.push(error instanceof Finding ? error : new Finding(String(error), { cause: error }));
    }
  }
  const found = findings.map((finding) => ({
    finding: finding.message,
    stack: finding.cause instanceof Error ? (finding.cause.stack ?? '') : '',
  }));
  if (seconds > most.seconds) found.push({ finding: `slow: ${seconds.toFixed(1)} s`, stack: '' });
  if (residentBytes > most.residentBytes)
    found.push({ finding: `large: ${Math.round(residentBytes / 2 ** 20)} MiB`, stack: '' });
  return { generated, refusals, findings: found, seconds, residentBytes };
}

/**
 * A case that follows from seed, number and corpus: one of the corpus with one more change, or a model with its first.
 */
function madeUp({ seed }: Task, names: readonly string[], number: number): Recipe {
  const random = new Random(mixed(seed, number));
  const from =
    corpus.length > 0 && random.chance(0.6)
      ? random.pick(random.chance(0.5) ? corpus.slice(-Math.ceil(corpus.length / 4)) : corpus)
      : undefined;
  if (from === undefined) return { base: random.pick(names), seeds: [random.next()] };
  const left = from.seeds.length < 4 ? -1 : random.below(from.seeds.length);
  const kept = from.seeds.filter((_, index) => index !== left);
  return { base: from.base, seeds: [...kept, random.next()] };
}

/** Until the parent has what was told. */
function flushed(): Promise<void> {
  return new Promise((resolve) => {
    if (!process.send) resolve();
    else process.send({}, () => resolve());
  });
}
