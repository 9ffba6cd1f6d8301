import { setImmediate } from 'node:timers/promises';
import { jsonMemory, takesAtMost } from '../../arguments/jsonMemory.js';
import { checkDepth, textsOfNumbers } from '../../arguments/jsonNumbers.js';
import { Turns } from '../../collections/Turns.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { boundHeapGrowth } from '../../rows/heapGrowth.js';
import { formatBytes } from '../../units.js';

/** The message for JSON that is not read, as its values would take more than a row's may. */
export const TOO_MANY_VALUES = `found JSON whose values take more than ${formatBytes(ROW_LIMITS.rowBytes)} of memory, expected at most that: fewer values in a row`;

/** A value of JSON, as JSON.parse reads it and with the digits that it loses. */
export interface ReadJson {
  readonly read: unknown;
  readonly written: unknown;
}

/** Tells whether JSON of so many bytes takes little, whatever stands in it. */
export function isShortJson(bytes: number): boolean {
  return takesAtMost(bytes, ROW_LIMITS.rowBytes);
}

/**
 * Reads JSON that is long: what it would take is counted first, and each step of reading it has a turn of the event
 * loop for itself.
 * @returns undefined where its values would take more than a row's may
 * @throws SyntaxError for what is no JSON; RangeError for what is nested too deep
 */
export async function longJson(bytes: Buffer, json = bytes.toString('utf8')): Promise<ReadJson | undefined> {
  boundHeapGrowth();
  const turns = new Turns();
  for (const heap of jsonMemory(bytes)) {
    if (heap > ROW_LIMITS.rowBytes) return undefined;
    if (turns.due) await turns.give();
  }
  await setImmediate();
  checkDepth(json);
  await turns.give();
  const read: unknown = JSON.parse(json);
  await turns.give();
  const slices = textsOfNumbers(json);
  let step = slices.next();
  for (; step.done !== true; step = slices.next()) if (turns.due) await turns.give();
  await turns.give();
  const written: unknown = step.value === undefined ? read : JSON.parse(step.value);
  await turns.give();
  return { read, written };
}
