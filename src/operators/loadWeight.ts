import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/grid/Task.js';
import { aheadOf, NO_EVENTS, stage, StepGate, type LookAhead, type Stage } from './stageInternals.js';

/**
 * Issues `load_weight` for the squares' layers: the part of each layer's weights that does not live where computing
 * happens. The squares of one pass that share a layer share its load: that is what block schedules are for.
 *
 *     squares   --(0,0)(0,1)--(1,0)(1,1)-->      (layer, slot)
 *     issued      W0            W1               one load a layer and pass
 *     out       --(0,0)(0,1)--(1,0)(1,1)-->
 *
 * @param run the run whose squares pass
 * @param lookAhead its `ahead`: layers that may be loaded ahead of the one that is computed. Default 1
 */
export function loadWeight(run: StageContext, lookAhead: LookAhead = {}): Stage {
  const ahead = aheadOf(lookAhead);
  return stage(() => {
    const gate = new StepGate(ahead);
    let current: { readonly pass: number; readonly layer: number; readonly events: readonly TaskEvent[] } | undefined;
    return (square) => {
      if (current?.pass === square.batch.pass && current.layer === square.layer) gate.add(square);
      else {
        gate.open(square);
        const routes = run.movement.loadWeight(square);
        const events = run.issueMoves(square, 'load_weight', routes, routes.length === 0 ? NO_EVENTS : gate.before());
        current = { pass: square.batch.pass, layer: square.layer, events };
      }
      square.events.inputs.push(...current.events);
    };
  });
}
