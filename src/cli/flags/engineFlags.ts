import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import {
  ENGINE_OPTIONS,
  readHardwareFile,
  UsageError,
  type EngineOption,
  type EngineOptions,
  type FlaggedOption,
  type Policy,
} from '../library.js';
import { longFlag } from './commandFlags.js';
import { decimal, path, size, sizeOrNone, wholeNumber, type FlagParser } from './parsers.js';
import { readPolicyFile } from './readPolicyFile.js';

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

/** How many rows there may be at once, where nobody plans. */
export function addBlockFlags(command: Command): void {
  addFlags(command, 'plan', false, ['batchSize', 'batches']);
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

/** What the flags say to `Engine.open`, but for files that they name: see `planOptions`. */
export function engineOptions(flags: EngineFlags, model: string): EngineOptions {
  const given: Readonly<Record<string, unknown>> = { ...flags };
  const options = OPTIONS.flatMap(([name, { value, flag }]) => {
    if (flag === undefined || given[name] === undefined || value.kind === 'document') return [];
    return [[name, value.kind === 'boolean' ? given[name] === 'on' : given[name]]];
  });
  return { ...(Object.fromEntries(options) as Partial<EngineOptions>), model };
}

/**
 * What is in the files that the flags name; a flag overrides the policy.
 * @throws UsageError, PlanFileError or another ModelFileError, naming file and field
 */
export async function planOptions({
  policy,
  hardware,
}: PlanFlags): Promise<Pick<EngineOptions, 'policy' | 'hardware'>> {
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
