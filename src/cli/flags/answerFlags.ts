import { InvalidArgumentError, Option, type Command } from 'commander';

export type OnOff = 'on' | 'off';

/** A flag that is on or off, and off if nothing is said. */
export function addOnOff(command: Command, flag: string, help: string, standard: OnOff = 'off'): void {
  command.addOption(new Option(`${flag} <on|off>`, help).choices(['on', 'off']).default(standard));
}

export function isOn(value: OnOff): boolean {
  return value === 'on';
}

/** A list `A,B,…`; a comma in one of them is written twice. */
export function labelList(text: string): readonly string[] {
  const labels = text
    .replaceAll(',,', '\0')
    .split(',')
    .map((part) => part.replaceAll('\0', ','));
  if (labels.includes(''))
    throw new InvalidArgumentError(
      'Found an empty label, expected texts with a comma between each two (a comma in a label is written twice).',
    );
  return labels;
}
