import type { Observable } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { Stage } from './stageInternals.js';

/**
 * Stages whose tasks depend on data alone, so that they run side by side wherever queues are free. This is how stages
 * behave by themselves; `overlap` says so in a composition, and is the word to exchange for `serialize`.
 */
export function overlap(...stages: readonly Stage[]): Stage {
  return (squares$) => stages.reduce<Observable<IssuedSquare>>((stream$, each) => stream$.pipe(each), squares$);
}
