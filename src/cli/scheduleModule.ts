import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InvalidArgumentError } from 'commander';
import { isObject, SCHEDULE_NAMES, UsageError, type Schedule, type ScheduleName } from './library.js';

/** A schedule as a command takes one: the name of one that is there, or a module that has one of your own. */
export type ScheduleChoice = ScheduleName | { readonly file: string };

const EXPECTED = `${SCHEDULE_NAMES.join(', ')}, or a module (.mjs) whose default export is a schedule`;

/** Reads what a flag says. @throws InvalidArgumentError */
export function scheduleFlag(text: string): ScheduleChoice {
  const choice = scheduleChoice(text);
  if (choice === undefined) throw new InvalidArgumentError(`Expected ${EXPECTED}.`);
  return choice;
}

/** Reads what a file says. @throws UsageError */
export function scheduleNamed(text: string, file: string): ScheduleChoice {
  const choice = scheduleChoice(text);
  if (choice === undefined) throw new UsageError(`${file}: schedules: found ${text}, expected ${EXPECTED}`);
  return choice;
}

function scheduleChoice(text: string): ScheduleChoice | undefined {
  return SCHEDULE_NAMES.find((each) => each === text) ?? (/\.[mc]?js$/.test(text) ? { file: text } : undefined);
}

/**
 * Loads a schedule of somebody's own: the module's default export, which is a schedule or a function without parameters
 * that returns one.
 * @throws UsageError for a module that cannot be loaded, or has none
 */
export async function loadSchedule(file: string): Promise<Schedule> {
  let exported: unknown;
  try {
    ({ default: exported } = (await import(pathToFileURL(resolve(file)).href)) as { readonly default?: unknown });
    if (typeof exported === 'function') exported = (exported as () => unknown)();
  } catch (error) {
    throw new UsageError(`--schedule: found ${file}, which cannot be loaded: ${(error as Error).message}`);
  }
  if (!isSchedule(exported))
    throw new UsageError(
      `--schedule: found no schedule as the default export of ${file}, expected { name, start, free, next }, or a function that returns one`,
    );
  return exported;
}

function isSchedule(value: unknown): value is Schedule {
  if (!isObject(value)) return false;
  const { start, free, next } = value;
  return [start, free, next].every((each) => typeof each === 'function');
}
