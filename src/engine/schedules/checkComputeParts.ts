import { ScheduleError } from '../../errors/ScheduleError.js';
import { whereIs, type ComputeSpan } from './PathRecord.js';
import type { Grid } from './Square.js';

/** The parts of a square's compute, in order; several tasks may do one part side by side. */
const PARTS = ['embed', 'project', 'attend', 'finish', 'head'] as const;

/**
 * Each part of a square's compute takes what the part before it has found. Squares whose compute is one task are not looked into.
 * @throws ScheduleError
 */
export function checkComputeParts({ layers }: Grid, { square, parts }: ComputeSpan): void {
  if (parts.every(({ part }) => part === undefined)) {
    if (parts.length > 1) throw new ScheduleError('complete', `${whereIs(square)}: computed a second time`);
    return;
  }
  let ended = -Infinity;
  for (const part of PARTS) {
    const tasks = parts.filter((each) => each.part === part);
    const expected = part === 'embed' ? square.layer === 0 : part === 'head' ? square.layer === layers - 1 : true;
    if (expected !== tasks.length > 0) throw new ScheduleError('complete', `${whereIs(square)}: ${part} is ${expected ? 'missing' : 'not for this layer'}`);
    if (tasks.length > 1 && part !== 'attend') throw new ScheduleError('complete', `${whereIs(square)}: ${part} is computed a second time`);
    if (tasks.some(({ start }) => start < ended)) throw new ScheduleError('inputs-on-device', `${whereIs(square)}: ${part} starts before the part before it has ended`);
    for (const { end } of tasks) ended = Math.max(ended, end);
  }
}
