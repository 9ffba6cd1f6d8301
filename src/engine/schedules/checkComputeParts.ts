import { ScheduleError } from '../../errors/engineErrors.js';
import { whereIs, type ComputeSpan } from './PathRecord.js';
import { layerBounds, type Grid } from '../grid/Square.js';

/** The parts of a square's compute, in order; several tasks may do one part side by side. */
const PARTS = ['embed', 'project', 'attend', 'finish', 'head'] as const;

/**
 * Each part of a square's compute takes what the part before it has found. Squares whose compute is one task are not
 * looked into.
 * @throws ScheduleError
 */
export function checkComputeParts(grid: Grid, { square, parts }: ComputeSpan): void {
  if (parts.every(({ part }) => part === undefined)) {
    if (parts.length > 1) throw new ScheduleError('complete', `${whereIs(square)}: computed a second time`);
    return;
  }
  const { first, last, embeds, samples } = layerBounds(grid);
  let ended = -Infinity;
  for (const part of PARTS) {
    const tasks = parts.filter((each) => each.part === part);
    const expected =
      part === 'embed' ? embeds && square.layer === first : part === 'head' ? samples && square.layer === last : true;
    if (expected !== tasks.length > 0)
      throw new ScheduleError(
        'complete',
        `${whereIs(square)}: ${part} is ${expected ? 'missing' : 'not for this layer'}`,
      );
    if (tasks.length > 1 && part !== 'attend')
      throw new ScheduleError('complete', `${whereIs(square)}: ${part} is computed a second time`);
    if (tasks.some(({ start }) => start < ended))
      throw new ScheduleError(
        'inputs-on-device',
        `${whereIs(square)}: ${part} starts before the part before it has ended`,
      );
    for (const { end } of tasks) ended = Math.max(ended, end);
  }
}
