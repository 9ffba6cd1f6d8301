import { CommanderError } from 'commander';
import { longFlag } from './flags/commandFlags.js';
import { fileErrorCode, SpillwayError, type ErrorCode } from './library.js';

/** Exit codes of every command. */
export const EXIT = { fine: 0, usage: 1, unusable: 2, memory: 3, rowErrors: 4, stopped: 5, sigpipe: 141 } as const;

/** `interrupted` has no entry: its code depends on the signal. */
const BY_CODE: Readonly<Record<Exclude<ErrorCode, 'interrupted'>, number>> = {
  usage: EXIT.usage,
  schedule: EXIT.usage,
  'model-file': EXIT.unusable,
  'job-file': EXIT.unusable,
  queue: EXIT.unusable,
  database: EXIT.unusable,
  native: EXIT.unusable,
  task: EXIT.unusable,
  peer: EXIT.unusable,
  row: EXIT.unusable,
  'response-format': EXIT.usage,
  'memory-budget': EXIT.memory,
};

export interface Outcome {
  readonly exitCode: number;
  /** For stderr; undefined where everything has been said. */
  readonly message?: string;
}

/**
 * Says what an error means for the process.
 * @param interruptedCode the exit code if the run was interrupted: 129, 130 or 143
 * @param flags those that there are, `--gpu-memory` and so on: the library speaks of options, which have their names
 */
export function outcomeOf(error: unknown, interruptedCode: number, flags: ReadonlySet<string> = new Set()): Outcome {
  // Commander has written its message or the help.
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? EXIT.fine : EXIT.usage };
  if (isBrokenPipe(error)) return { exitCode: EXIT.sigpipe };
  if (error instanceof SpillwayError) {
    if (error.code === 'interrupted') return { exitCode: interruptedCode };
    return { exitCode: BY_CODE[error.code], message: `error: ${withFlags(error.message, flags)}` };
  }
  const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    exitCode: EXIT.unusable,
    message: `error: something went wrong that should not (please report it): ${details}`,
  };
}

/** Options whose flags are called otherwise. */
const FLAGS: Readonly<Record<string, string>> = {
  newTokens: '--max-new-tokens',
  address: '--listen',
  allowedHosts: '--allow-host',
  allowedOrigins: '--allow-origin',
  sharedKey: '--shared-key-file',
};

/**
 * A message of the library in the words of the command line: `gpuMemory: found …` and an option in backticks become
 * `--gpu-memory`, one with a number `--gpu-memory 1024`; so do `generate.promptTemplate` and `allow.batchSize`.
 */
export function withFlags(message: string, flags: ReadonlySet<string>): string {
  const replaced = (whole: string, option: string, rest: unknown): string => {
    const flag = FLAGS[option] ?? longFlag(option);
    return flags.has(flag) ? `${flag}${typeof rest === 'string' ? rest : ''}` : whole;
  };
  return message
    .replace(/^(?:(?:generate|classify|score|rerank|embed|allow)\.)?([a-z][A-Za-z]*)(?=: )/, replaced)
    .replace(/`new MemoryBudget\((\d+)\)`|(?<=of )memoryBudget/g, (_, bytes: unknown) =>
      typeof bytes === 'string' ? `--cpu-memory ${bytes}` : '--cpu-memory',
    )
    .replace(/`(?:allow\.)?([a-z][A-Za-z]*)(?:: true|:(?= \d+`))?( \d+| [A-Za-z]+=[A-Za-z]+)?`/g, replaced);
}

/** Whoever read our output has closed it: no failure worth a word. */
export function isBrokenPipe(error: unknown): boolean {
  return fileErrorCode(error) === 'EPIPE' || (error instanceof SpillwayError && fileErrorCode(error.cause) === 'EPIPE');
}
