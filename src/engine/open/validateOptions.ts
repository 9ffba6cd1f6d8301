import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal, checkText, checkWhole } from '../../arguments/checks.js';
import { found, foundJson } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { number, oneOf, size, text, whole } from '../../arguments/memberChecks.js';
import type { NumberRange } from '../../arguments/NumberRange.js';
import type { InstructionSet, MachineFacts } from '../../bindings/Addon.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { GPU_PRODUCTS } from '../../bindings/Gpu.js';
import type { EngineOptions, EngineShares } from '../../EngineOptions.js';
import { PlanFileError } from '../../errors/ModelFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { longRowTokens, type ExpectedRows } from '../../ExpectedRows.js';
import { WEIGHT_COMPRESSIONS } from '../../model/compressBindings.js';
import type { LayerRange } from '../../model/partOf.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { Size } from '../../units.js';
import { gpuBytes } from './gpuBudget.js';
import { policyOptions } from './policyOptions.js';
import { settle, type Settings } from './settings.js';
import { BLOCK_LIMITS, COMPRESSIONS, parsePolicyDocument, type Policy } from '../../plan/Policy.js';
import { parseHardware, type HardwareProfile } from '../../plan/HardwareProfile.js';
import { SCHEDULE_NAMES } from '../schedules/blockSchedules.js';

/** Of the keys that a query sees, those that sparse attention keeps. */
export const KEPT_SHARE: NumberRange = { least: 0, above: true, most: 1 };
/** Tokens of a usual row, at most. */
const MOST_ROW_TOKENS = 2 ** 24;

const INSTRUCTION_SETS: readonly InstructionSet[] = ['scalar', 'avx2', 'avx512', 'amx'];
const MODEL_WORDS = 'a path or a known id';

const atLeastZero = number({ least: 0 });
/** What a document says is judged as it is read: see below. */
const read: Check = () => undefined;

/** What each option has to be, whatever the others, the model and the machine are. */
const CHECKS: Readonly<Record<keyof EngineOptions, Check>> = {
  model: text(MODEL_WORDS),
  layers: (name, value) => {
    checkMembers(name, value, LAYER_CHECKS, `${name}.`);
    const { first, count } = value as Partial<LayerRange>;
    if (first === undefined || count === undefined)
      throw new UsageError(`${name}: found ${found(value)}, expected first and count`);
  },
  precision: oneOf('default', 'float32'),
  policy: read,
  hardware: read,
  learn: checkBoolean,
  expectedRows: (name, value) => {
    if (typeof value !== 'function') checkExpectedRows(name, value);
  },
  schedule: oneOf(...SCHEDULE_NAMES),
  compressWeights: oneOf(...WEIGHT_COMPRESSIONS, 'auto'),
  compressCache: oneOf(...COMPRESSIONS, 'auto'),
  sparseAttention: number(KEPT_SHARE),
  gpuMemory: (_, value) => {
    gpuBytes(value as Size);
  },
  gpuProducts: oneOf(...GPU_PRODUCTS),
  cpuMemory: size,
  threads: whole(1, BLOCK_LIMITS.threads),
  device: oneOf('auto', 'cpu', 'cuda'),
  batchSize: whole(1, BLOCK_LIMITS.batchSize),
  batches: whole(1, BLOCK_LIMITS.batches),
  tokensPerSquare: whole(1, BLOCK_LIMITS.tokensPerSquare),
  rowTokens: (name, value) => {
    if (typeof value !== 'function') checkWhole(name, value, 1, MOST_ROW_TOKENS);
  },
  instructionSet: oneOf(...INSTRUCTION_SETS),
  weights: checkShares,
  cache: checkShares,
  activations: checkShares,
  disk: (name, value) => {
    checkText(name, value, 'the path of a folder');
    if (value === '') throw new UsageError(`${name}: found "", expected the path of a folder`);
  },
  diskMemory: size,
  onDownload: checkFunction,
  onProfile: checkFunction,
  onPlan: checkFunction,
  onIdentify: checkFunction,
  onWait: checkFunction,
  onRepack: checkFunction,
  onLoad: checkFunction,
  signal: checkSignal,
};
const LAYER_CHECKS: Readonly<Record<keyof LayerRange, Check>> = { first: whole(0), count: whole(1) };
const SHARE_CHECKS: Readonly<Record<keyof EngineShares, Check>> = {
  gpu: atLeastZero,
  cpu: atLeastZero,
  disk: atLeastZero,
};
const EXPECTED_CHECKS: Readonly<Record<keyof ExpectedRows, Check>> = {
  promptTokens: atLeastZero,
  newTokens: atLeastZero,
  longRowTokens: atLeastZero,
  sharedPrefixTokens: atLeastZero,
  rows: whole(0),
};

/** What a caller asks of an engine: everything checked that needs no model. */
export interface RequestedOptions {
  /** The caller's, and where they say nothing their policy's. */
  readonly options: EngineOptions;
  /** These, with the defaults that hold unless something is planned. */
  readonly settings: Settings;
}

/**
 * The first step of opening an engine. A model may have to be fetched before the next one, and nobody should wait for
 * that to hear of a wrong option.
 *
 * @throws UsageError naming the option, what was found and what was expected; NativeError where there is no addon
 */
export async function validateOptions(given: unknown): Promise<RequestedOptions> {
  const requested = requestedOptions(
    checkEngineOptions(given),
    nativeCall(() => loadAddon().machine()),
  );
  const { disk } = requested.options;
  if (
    disk !== undefined &&
    (await stat(disk).then(
      (status) => !status.isDirectory(),
      () => false,
    ))
  ) {
    throw new UsageError(
      `disk: found ${disk}, which is no folder, expected the path of one, or of one that can be made`,
    );
  }
  return requested;
}

/**
 * Options beside each other, and beside the machine. @param options as `checkEngineOptions` leaves them
 * @throws UsageError
 */
export function requestedOptions(options: EngineOptions, machine: MachineFacts): RequestedOptions {
  const { policy } = options;
  const all =
    typeof policy === 'object' ? { ...policyOptions(policy, gpuBytes(options.gpuMemory) > 0), ...options } : options;
  return { options: all, settings: settle(all, machine) };
}

/**
 * Checks what a caller hands to `Engine.open`, as far as that goes without the other options, the model and the
 * machine.
 *
 * @returns the options, with policy and hardware as they are once their defaults are filled in
 * @throws UsageError naming the option, what was found and what was expected
 */
export function checkEngineOptions(options: unknown): EngineOptions {
  checkMembers('options', options, CHECKS);
  // Read once, by name: what is inherited counts, and nothing changes afterwards.
  const entries = Object.keys(CHECKS)
    .map((name) => [name, options[name as keyof typeof options] as unknown])
    .filter(([, value]) => value !== undefined);
  const { model, policy, hardware, ...others } = Object.fromEntries(entries) as Partial<EngineOptions>;
  if (model === undefined) throw new UsageError(`model: found nothing, expected ${MODEL_WORDS}`);
  return {
    ...others,
    model,
    ...(policy !== undefined && { policy: givenPolicy(policy) }),
    ...(hardware !== undefined && { hardware: givenHardware(hardware) }),
  };
}

/** What is known of the rows that are to come. */
export interface RowsToCome {
  readonly expected: ExpectedRows | undefined;
  /** Tokens of a long one. */
  readonly rowTokens: number | undefined;
}

/**
 * What the options say of the rows that are to come: by themselves, or by what the caller's functions find out.
 * @throws UsageError for what these find out, if it makes no sense
 */
export async function resolveExpectedRows(
  { expectedRows, rowTokens }: EngineOptions,
  tokenizer: Tokenizer,
): Promise<RowsToCome> {
  const expected = typeof expectedRows === 'function' ? await expectedRows(tokenizer) : expectedRows;
  if (expected !== undefined) {
    checkExpectedRows('expectedRows', expected);
    return { expected, rowTokens: Math.min(longRowTokens(expected), MOST_ROW_TOKENS) };
  }
  const typical = typeof rowTokens === 'function' ? await rowTokens(tokenizer) : rowTokens;
  if (typical !== undefined) checkWhole('rowTokens', typical, 1, MOST_ROW_TOKENS);
  return { expected, rowTokens: typical };
}

/** @throws UsageError */
function checkExpectedRows(name: string, value: unknown): asserts value is ExpectedRows {
  checkMembers(name, value, EXPECTED_CHECKS, `${name}.`);
  const { promptTokens, newTokens } = value as Partial<ExpectedRows>;
  if (promptTokens === undefined || newTokens === undefined)
    throw new UsageError(`${name}: found ${found(value)}, expected promptTokens and newTokens`);
}

function checkShares(name: string, value: unknown): void {
  checkMembers(name, value, SHARE_CHECKS, `${name}.`);
  const { gpu = 0, cpu = NaN, disk = NaN } = value as Partial<EngineShares>;
  if (!(Math.abs(gpu + cpu + disk - 1) < 1e-6))
    throw new UsageError(`${name}: found ${foundJson(value)}, expected shares gpu, cpu and disk that sum to 1`);
}

function givenPolicy(value: unknown): 'auto' | 'default' | Policy {
  if (value === 'auto' || value === 'default') return value;
  if (!isObject(value)) throw new UsageError(`policy: found ${found(value)}, expected auto, default or a policy`);
  return orUsageError(() => parsePolicyDocument(value, 'policy'));
}

function givenHardware(value: unknown): 'this' | HardwareProfile {
  if (value === 'this') return value;
  if (!isObject(value))
    throw new UsageError(
      `hardware: found ${found(value)}, expected this or a profile, such as readHardware reads from a file`,
    );
  return orUsageError(() => parseHardware(value, 'hardware'));
}

/** A document that is an argument is no file. */
function orUsageError<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof PlanFileError ? new UsageError(error.message, { cause: error }) : error;
  }
}
