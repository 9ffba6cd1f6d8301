import { defer } from 'rxjs';
import type { IssuedSquare, Series } from '../engine/execution/IssuedSquare.js';
import { overlap } from './overlap.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Stages of which no two tasks run at once: each task waits for the one that was issued before it, whichever stage or
 * square that was for, and the first of a square for all of the previous square. Compositions among the stages, an
 * `overlap` too, are in series like everything else there. For ablations.
 */
export function serialize(...stages: readonly Stage[]): Stage {
  return (squares$) => defer(() => inSeries(stages)(squares$));
}

function inSeries(stages: readonly Stage[]): Stage {
  const series: Series = { before: [] };
  let previous: IssuedSquare | undefined;
  const begin = stage(() => (square) => {
    // Within another `serialize` everything is in series already.
    if (square.events.series) return;
    // Other stages may have issued something for the previous square since. What has completed nobody has to wait for.
    const before = new Set([...series.before, ...(previous?.events.all ?? [])]);
    series.before = [...before].filter(({ timing }) => timing === undefined);
    square.events.series = series;
    previous = square;
  });
  const end = stage(() => ({ events }) => {
    if (events.series === series) events.series = undefined;
  });
  return overlap(begin, ...stages, end);
}
