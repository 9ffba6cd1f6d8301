import { stat } from 'node:fs/promises';
import { checkMembers } from '../../arguments/checkMembers.js';
import { checkWhole } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import type { MachineFacts } from '../../bindings/Addon.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { PlanFileError } from '../../errors/ModelFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { longRowTokens, type ExpectedRows } from '../../ExpectedRows.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { checkExpectedRows, MODEL_WORDS, MOST_ROW_TOKENS, OPTION_CHECKS } from './engineOptions.js';
import { gpuBytes } from './gpuBudget.js';
import { policyOptions } from './policyOptions.js';
import { settle, type Settings } from './settings.js';
import { parseHardware, type HardwareProfile } from '../../plan/HardwareProfile.js';
import { parsePolicyDocument, type Policy } from '../../plan/Policy.js';

/** The options that a caller asks of an engine: everything checked that needs no model. */
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
  const { policy, maxLatency } = options;
  if (maxLatency !== undefined && policy !== undefined && policy !== 'auto')
    throw new UsageError(
      `maxLatency: found ${maxLatency}, expected policy auto beside it: it says what a plan is searched for, and ${policy === 'default' ? 'with policy default nothing is planned' : 'a policy that is given is no search'}`,
    );
  checkAlone(options);
  const all =
    typeof policy === 'object' ? { ...policyOptions(policy, gpuBytes(options.gpuMemory) > 0), ...options } : options;
  checkLayout(all);
  return { options: all, settings: settle(all, machine) };
}

/** @throws UsageError for a layout of weights beside what it is not made for */
function checkLayout({ weightsLayout, compressWeights = 'none', gpuMemory }: EngineOptions): void {
  if (weightsLayout !== 'int8') return;
  if (compressWeights !== 'none')
    throw new UsageError(
      `weightsLayout: found "int8" beside compressWeights "${compressWeights}", expected one of them: both say in how many bits matrices are kept`,
    );
  if (gpuBytes(gpuMemory) > 0)
    throw new UsageError(
      'weightsLayout: found "int8" beside gpuMemory, expected as-is: the processor has such products alone',
    );
}

/** @throws UsageError for a share of each layer beside what only whole layers can be */
function checkAlone({ tensorParallel, layers, gpuMemory }: EngineOptions): void {
  if (tensorParallel === undefined) return;
  if (layers !== undefined)
    throw new UsageError('tensorParallel: found one beside layers, expected one of them: a share is of all layers');
  if (gpuBytes(gpuMemory) > 0)
    throw new UsageError(
      'tensorParallel: found one beside gpuMemory, expected one of them: shares of layers are computed by processors',
    );
}

/**
 * Checks what a caller hands to `Engine.open`, as far as that goes without the other options, the model and the
 * machine.
 *
 * @returns the options, with policy and hardware as they are once their defaults are filled in
 * @throws UsageError naming the option, what was found and what was expected
 */
export function checkEngineOptions(options: unknown): EngineOptions {
  checkMembers('options', options, OPTION_CHECKS);
  // Read once, by name: what is inherited counts, and nothing changes afterwards.
  const entries = Object.keys(OPTION_CHECKS)
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

/** The facts known of the rows that are to come. */
export interface RowsToCome {
  readonly expected: ExpectedRows | undefined;
  /** Tokens of a long one. */
  readonly rowTokens: number | undefined;
}

/**
 * Finds what the options say of the rows that are to come: by themselves, or by what the caller's functions find out.
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
