import { InvalidArgumentError, Option, type Command } from 'commander';
import { isWithin, JOB_OPTIONS, leastCascadeSample, UsageError } from '../library.js';
import { wholeNumber, type FlagParser } from './parsers.js';
import { comesOnce } from './tableFlags.js';

/** A model of `--cascade`, with its line where it has one. */
export interface CascadeEntry {
  readonly model: string;
  readonly threshold?: number;
}

export interface CascadeFlags {
  readonly cascade?: readonly CascadeEntry[];
  readonly cascadeTarget?: number;
  readonly cascadeCertainty: number;
  readonly cascadeSample?: number;
  readonly cascadeSeed?: number;
}

/** Rows from which lines are learnt, where nothing is said: more, where so few could not show what is promised. */
const SAMPLE = 1000;
const MOST_SAMPLE = 1_000_000;

export function addCascadeFlags(command: Command): void {
  command.optionsGroup('Cascade:');
  command.addOption(
    new Option(
      '--cascade <models>',
      'models that answer where those before were not sure enough, MODEL@LINE with commas between: rows below the line of a model go on. The last has no line. --model is one more, the first, or the last if its files are the largest (default: none)',
    ).argParser(entries),
  );
  command.addOption(
    new Option(
      '--cascade-target <p%>',
      "learn the lines from drawn rows, so that at least this share of all rows has the last model's answer (default: none)",
    ).argParser(share),
  );
  command.addOption(
    new Option('--cascade-certainty <p%>', 'with this probability over the draw').argParser(share).default(0.95, '95%'),
  );
  command.option(
    '--cascade-sample <n>',
    `rows that are drawn for it, which all models answer (default: ${SAMPLE}, or twice what the target needs)`,
    wholeNumber(1, MOST_SAMPLE),
  );
  command.option(
    '--cascade-seed <n>',
    'which rows are drawn (default: 0)',
    wholeNumber(JOB_OPTIONS.sampleSeed.least, JOB_OPTIONS.sampleSeed.most),
  );
}

/** The last `@` parts the line: names of the hub have others. */
const entries: FlagParser<readonly CascadeEntry[]> = (text) =>
  text.split(',').map((part) => {
    const [, model = '', line] = /^(.*?)(?:@(\d+(?:\.\d*)?%?|\.\d+))?$/s.exec(part.trim()) ?? [];
    if (model === '') throw new InvalidArgumentError('Expected MODEL@LINE,… such as small-model@0.8,large-model.');
    if (line === undefined) return { model };
    const threshold = line.endsWith('%') ? Number(line.slice(0, -1)) / 100 : Number(line);
    if (!isWithin(threshold, { least: 0, most: 1 }))
      throw new InvalidArgumentError(`Found the line ${line} of ${model}, expected a number from 0 to 1, or a share.`);
    return { model, threshold };
  });

const share: FlagParser<number> = (text) => {
  const [, digits, percent] = /^(\d+(?:\.\d*)?|\.\d+)(%?)$/.exec(text) ?? [];
  const value = Number(digits) / (percent === '%' ? 100 : 1);
  if (!isWithin(value, { least: 0, above: true, most: 1 }) || value === 1)
    throw new InvalidArgumentError('Expected a share above 0% and below 100%.');
  return value;
};

type Given = CascadeFlags & {
  readonly model?: string;
  readonly input?: string;
  readonly dryRun?: boolean;
  readonly peers?: readonly string[];
  readonly shard?: unknown;
};

/**
 * Refuses flags of a cascade that do not go together, before anything is read.
 * @returns the same, with the list's first model in the place of `--model` where there is none
 * @throws UsageError
 */
export function checkedCascade<Flags extends Given>(flags: Flags): Flags {
  const { cascade, model, cascadeTarget: target } = flags;
  const drawn = givenName({ '--cascade-sample': flags.cascadeSample, '--cascade-seed': flags.cascadeSeed });
  if (cascade === undefined) {
    const lone = target === undefined ? drawn : '--cascade-target';
    if (lone !== undefined) throw new UsageError(`${lone}: found it without --cascade, expected the models beside it`);
    return flags;
  }
  if (flags.dryRun === true)
    throw new UsageError('--cascade: found it beside --dry-run, which tells of one model: give each as --model alone');
  if (flags.peers !== undefined)
    throw new UsageError('--cascade: found it beside --peers, whose engines do not say how sure they are');
  if (target === undefined && drawn !== undefined)
    throw new UsageError(`${drawn}: found it without --cascade-target, for which the rows are drawn`);
  const names = [...cascade.map((entry) => entry.model), ...(wholeList(flags) || model === undefined ? [] : [model])];
  const models = names.length;
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new UsageError(`--cascade: found ${twice} twice, expected each model once`);
  if (models < 2)
    throw new UsageError(`--cascade: found ${names.join()} alone, expected another model: --model, or in the list`);
  checkLines(flags, models);
  if (target !== undefined) checkTarget(flags, target, models);
  return { ...flags, model: model ?? cascade[0]?.model };
}

/** The first of these flags that was given. */
function givenName(flags: Readonly<Record<string, unknown>>): string | undefined {
  return Object.keys(flags).find((name) => flags[name] !== undefined);
}

/** Tells whether all models stand in the list. */
function wholeList({ cascade = [], model }: Given): boolean {
  return model === undefined || cascade.some((entry) => entry.model === model);
}

function checkLines({ cascade = [], cascadeTarget }: Given, models: number): void {
  const lines = cascade.filter(({ threshold }) => threshold !== undefined).length;
  if (cascadeTarget !== undefined) {
    if (lines > 0) throw new UsageError('--cascade-target: found lines in --cascade, too, expected one of them');
    return;
  }
  const without = cascade.findIndex(({ threshold }) => threshold === undefined);
  const whole = cascade.length === models;
  if (lines !== models - 1 || (whole && without !== models - 1))
    throw new UsageError(
      `--cascade: found ${lines} ${lines === 1 ? 'line' : 'lines'} for ${models} models, expected one for each but the last, such as small@0.8,large, or --cascade-target, which learns them`,
    );
}

function checkTarget(flags: Given, target: number, models: number): void {
  if (flags.shard !== undefined)
    throw new UsageError(
      '--cascade-target: found it beside --shard, expected the lines that a run without it has learnt',
    );
  if (flags.input !== undefined && comesOnce(flags.input))
    throw new UsageError(
      '--cascade-target: found it beside an input that comes once, expected a file, of which rows can be drawn first; or lines in --cascade',
    );
  const least = leastCascadeSample({ target, certainty: flags.cascadeCertainty }, models);
  const sample = flags.cascadeSample;
  if (sample !== undefined && sample < least)
    throw new UsageError(
      `--cascade-sample: found ${sample}, expected at least ${least} rows: fewer cannot show that ${percent(target)} of answers are the last model's with ${percent(flags.cascadeCertainty)} certainty`,
    );
}

/** How the lines are learnt: what a resumed job must have been told, too. */
export interface CascadeLearning {
  readonly target: number;
  readonly certainty: number;
  readonly sample: number;
  readonly seed: number;
}

export function learningOf(flags: CascadeFlags, models: number): CascadeLearning | undefined {
  const { cascadeTarget: target, cascadeCertainty: certainty } = flags;
  if (target === undefined) return undefined;
  const least = leastCascadeSample({ target, certainty }, models);
  const sample = flags.cascadeSample ?? Math.min(MOST_SAMPLE, Math.max(SAMPLE, 2 * least));
  return { target, certainty, sample, seed: flags.cascadeSeed ?? 0 };
}

/**
 * The models in the order in which they answer.
 * @param bytes of the files of each
 */
export function cascadeOrder(flags: Given, bytes: ReadonlyMap<string, number>): readonly CascadeEntry[] {
  const { cascade = [], model } = flags;
  if (model === undefined || wholeList(flags)) return cascade;
  const sizeOf = (name: string): number => bytes.get(name) ?? 0;
  const isLast = cascade.every((entry) => sizeOf(entry.model) < sizeOf(model));
  const names = cascade.map((entry) => entry.model);
  return (isLast ? [...names, model] : [model, ...names]).map((name, at) => {
    const threshold = cascade[at]?.threshold;
    return { model: name, ...(threshold !== undefined && { threshold }) };
  });
}

export function percent(share: number): string {
  return `${Number((100 * share).toPrecision(12))}%`;
}
