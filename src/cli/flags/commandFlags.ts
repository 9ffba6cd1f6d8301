import { Option, type Command } from 'commander';
import { UsageError } from '../library.js';

/** The flag of a name: `--gpu-memory` of `gpuMemory`. */
export function longFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A flag without a value; its default is off. */
export function addSwitch(command: Command, flag: string, help: string): void {
  command.addOption(new Option(flag, help).default(false, 'off'));
}

/**
 * Refuses a command whose necessary flags are not all there. Commander could do so too, but it would do it before it
 * looks for misspelt flags, which are the likelier reason and deserve the answer.
 * @throws UsageError
 */
export function requireFlags<Flags extends object>(flags: Flags, ...names: readonly (keyof Flags & string)[]): void {
  const missing = names.filter((name) => flags[name] === undefined).map(longFlag);
  if (missing.length > 0) throw new UsageError(`missing: ${missing.join(', ')} (--help lists all flags)`);
}
