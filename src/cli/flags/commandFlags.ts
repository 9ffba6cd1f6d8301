import { Option, type Command } from 'commander';
import { nearest, UsageError } from '../library.js';

/** The flag of a name: `--gpu-memory` of `gpuMemory`. */
export function longFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A flag without a value; its default is off. */
export function addSwitch(command: Command, flag: string, help: string): void {
  command.addOption(new Option(flag, help).default(false, 'off'));
}

const GATHERING = new WeakSet<Option>();

/** A flag that may be given several times: all of its values count. */
export function gathering(option: Option): Option {
  GATHERING.add(option);
  return option;
}

/** Has a command, which is parsed once, refuse other flags with a value that are given twice: the last would count. */
export function refuseRepeated(command: Command): void {
  for (const option of command.options.filter((each) => each.required && !GATHERING.has(each))) {
    let given = false;
    command.on(`option:${option.name()}`, () => {
      if (given) throw new UsageError(`${option.long ?? ''}: found it several times, expected it once`);
      given = true;
    });
  }
}

/** Has a command name the flag that an unknown one probably means, by what other tools call it, too. */
export function suggestFlags(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => {
      const [, unknown] = /unknown option '(--[^']*)'/.exec(text) ?? [];
      const names = command.options.flatMap(({ long, hidden }) => (long === undefined || hidden ? [] : [long]));
      const meant = unknown === undefined ? undefined : nearest(unknown, names);
      if (meant === undefined) write(text);
      else write(`${text.replace(/\n\(Did you mean[^)]*\)/, '').trimEnd()}\n(Did you mean ${meant}?)\n`);
    },
  });
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
