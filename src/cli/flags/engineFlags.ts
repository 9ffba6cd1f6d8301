import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import {
  ENGINE_OPTIONS,
  readHardwareFile,
  readPolicyFile,
  UsageError,
  type EngineOption,
  type EngineOptions,
  type FlaggedOption,
  type Policy,
} from '../library.js';
import { longFlag } from './commandFlags.js';
import { decimal, path, size, sizeOrNone, wholeNumber, type FlagParser } from './parsers.js';

export interface ModelFlags {
  readonly model: string;
}

/** Flags of commands that compute: those that are values of options. */
export type EngineFlags = ModelFlags & Pick<EngineOptions, Exclude<FlaggedOption, 'model' | keyof PlanFlags>>;

export interface PlanFlags {
  /** A word, or the file that says it. */
  readonly policy: string;
  readonly hardware: string;
  readonly overlap: 'on' | 'off';
  readonly learn: 'on' | 'off';
}

const OPTIONS: readonly (readonly [string, EngineOption])[] = Object.entries(ENGINE_OPTIONS);

export function addModelFlag(command: Command): void {
  addFlags(command, 'model');
}

export function addMachineFlags(command: Command): void {
  command.optionsGroup('Precision and machine:');
  addFlags(command, 'machine');
}

/** @param planned whether there is a plan that can choose a compression */
export function addCompressionFlags(command: Command, planned = false): void {
  command.optionsGroup('Compression:');
  addFlags(command, 'compression', planned);
}

export function addPlanFlags(command: Command): void {
  command.optionsGroup('Plan:');
  addFlags(command, 'plan');
  command.addOption(
    new Option(
      '--overlap <on|off>',
      'on: transfers run while something computes; off: one task after another, to measure what that gains',
    )
      .choices(['on', 'off'])
      .default('on'),
  );
  addFlags(command, 'learning');
}

/** Options that are a machine's own, whoever submits a job: places on its disks, and what was measured there. */
const OWN: readonly string[] = ['disk', 'diskMemory', 'hardware'];
const GROUPS: readonly EngineOption['group'][] = ['machine', 'compression', 'plan', 'learning'];

/** The engine flags that a job in a queue may give. */
export type SharedEngineFlags = Partial<Omit<EngineFlags, 'disk' | 'diskMemory'>> &
  Pick<PlanFlags, 'policy'> &
  ModelFlags;
/** The flags for a worker's own engine: nothing that decides results. */
export type WorkerEngineFlags = Partial<EngineFlags> & Pick<PlanFlags, 'policy' | 'hardware'>;

/** The model, and what else a job says to all of its workers. */
export function addSharedEngineFlags(command: Command): void {
  addModelFlag(command);
  const shared = OPTIONS.map(([name]) => name).filter((name) => !OWN.includes(name));
  command.optionsGroup('Engines of all workers, which may say otherwise for themselves where results stay the same:');
  for (const group of GROUPS) addFlags(command, group, true, shared);
}

/** Adds flags for a worker's own engine. */
export function addWorkerEngineFlags(command: Command): void {
  command.optionsGroup('Engine (default: what the job says):');
  command.addOption(
    new Option('--model <path|name>', "where the model is on this machine; its contents have to be the other workers'"),
  );
  const own = OPTIONS.flatMap(([name, { identity }]) => (identity === true ? [] : [name]));
  for (const group of GROUPS) addFlags(command, group, true, own);
}

/**
 * Gives the part of the flags that a job tells its workers, as plain JSON data; defaults are each worker's. @throws as
 * planOptions
 */
export async function sharedEngineOptions(flags: SharedEngineFlags): Promise<Readonly<Record<string, unknown>>> {
  const { policy } = await planOptions({ policy: flags.policy, hardware: 'this' });
  return { ...withoutDefaults(engineOptions(flags, flags.model)), ...(policy !== 'auto' && { policy }) };
}

/**
 * Checks what a job in a queue says of engines.
 * @throws UsageError for what it may not say, or what is no value
 */
function checkSharedEngineOptions(given: Readonly<Record<string, unknown>>): EngineOptions {
  const known = OPTIONS.flatMap(([name, { flag }]) => (flag === undefined || OWN.includes(name) ? [] : [name]));
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(
      `engine: found ${JSON.stringify(unknown.slice(0, 80))} in the job, expected any of ${known.join(', ')}`,
    );
  const { model } = given;
  if (typeof model !== 'string') throw new UsageError('engine: found no model in the job, expected one; give --model');
  return { ...given, model };
}

/**
 * Gives the options that an engine of a worker is told: what the job says, and in its place what the worker's flags do.
 * @throws UsageError for what a job may not say; and as planOptions
 */
export async function workerEngineOptions(
  flags: WorkerEngineFlags,
  ofJob: Readonly<Record<string, unknown>>,
): Promise<EngineOptions> {
  const shared = checkSharedEngineOptions({ ...ofJob, ...(flags.model !== undefined && { model: flags.model }) });
  const { policy, ...planned } = await planOptions(flags);
  return {
    ...shared,
    ...(policy !== 'auto' && { policy }),
    ...planned,
    ...withoutDefaults(engineOptions({ ...flags, model: shared.model }, shared.model)),
  };
}

/** Without what is the default, so that it is nothing beside what another says. */
function withoutDefaults(options: EngineOptions): EngineOptions {
  const defaults = new Map(OPTIONS.map(([name, option]) => [name, option.default]));
  const given = Object.entries(options).filter(([name, value]) => name === 'model' || defaults.get(name) !== value);
  return { ...Object.fromEntries(given), model: options.model };
}

/** How many rows there may be at once, where nobody plans. */
export function addBlockFlags(command: Command): void {
  addFlags(command, 'plan', false, ['batchSize', 'batches', 'tokensPerSquare']);
}

/** The flags of a group of options. @param names of these; default: all */
function addFlags(command: Command, group: EngineOption['group'], planned = false, names?: readonly string[]): void {
  for (const [name, option] of OPTIONS) {
    if (option.group === group && option.flag !== undefined && names?.includes(name) !== false)
      command.addOption(flagOf(`${longFlag(name)} ${option.flag}`, option, planned));
  }
}

function flagOf(flags: string, option: EngineOption, planned: boolean): Option {
  const { value, required, about, defaultWords } = option;
  const chooses = planned && value.kind === 'choice' && value.planned !== undefined;
  const flag = new Option(
    flags,
    [
      required ? 'necessary: ' : '',
      about,
      chooses ? ', auto (whatever is fastest)' : '',
      defaultWords === undefined ? '' : ` (default: ${defaultWords})`,
    ].join(''),
  );
  if (value.kind === 'choice') flag.choices([...value.among, ...(chooses ? (value.planned ?? []) : [])]);
  else if (value.kind === 'boolean') flag.choices(['on', 'off']);
  else flag.argParser(parserOf(value));
  if (defaultWords !== undefined || option.default === undefined) return flag;
  if (value.kind === 'boolean') return flag.default(option.default === true ? 'on' : 'off');
  return flag.default(option.default, value.kind === 'number' && option.default === value.off ? 'off' : undefined);
}

function parserOf(value: Exclude<EngineOption['value'], { readonly kind: 'choice' | 'boolean' }>): FlagParser<unknown> {
  switch (value.kind) {
    case 'whole':
      return wholeNumber(value.least, value.most);
    case 'number': {
      const { range, off } = value;
      if (off === undefined) return decimal(range);
      const number = decimal(range, ', or off');
      return (text) => (text === 'off' ? off : number(text));
    }
    case 'size':
      return value.none ? sizeOrNone : size;
    case 'path':
    case 'document':
      return path;
    case 'other':
      throw new TypeError('an option of this kind can have no flag');
  }
}

/** Turns the flags into `Engine.open` options, but for files that they name: see `planOptions`. */
export function engineOptions(flags: EngineFlags, model: string): EngineOptions {
  const given: Readonly<Record<string, unknown>> = { ...flags };
  const options = OPTIONS.flatMap(([name, { value, flag }]) => {
    if (flag === undefined || given[name] === undefined || value.kind === 'document') return [];
    return [[name, value.kind === 'boolean' ? given[name] === 'on' : given[name]]];
  });
  return { ...(Object.fromEntries(options) as Partial<EngineOptions>), model };
}

/**
 * Gives what is in the files that the flags name; a flag overrides the policy.
 * @throws UsageError, PlanFileError or another ModelFileError, naming file and field
 */
export async function planOptions({
  policy,
  hardware,
}: Pick<PlanFlags, 'policy' | 'hardware'>): Promise<Pick<EngineOptions, 'policy' | 'hardware'>> {
  return {
    policy: await readPolicy(policy),
    ...(hardware === 'this' ? {} : { hardware: await readHardwareFile(hardware) }),
  };
}

/** A bare word that is neither a name nor a file is more likely a name misspelt. */
async function readPolicy(nameOrFile: string): Promise<'auto' | 'default' | Policy> {
  if (nameOrFile === 'auto' || nameOrFile === 'default') return nameOrFile;
  if (!/[\\/.]/.test(nameOrFile) && !existsSync(nameOrFile)) {
    throw new UsageError(
      `--policy: found ${JSON.stringify(nameOrFile)}, expected auto, default, or a file such as \`plan --json\` writes`,
    );
  }
  return readPolicyFile(nameOrFile);
}
