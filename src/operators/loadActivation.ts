import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/grid/Task.js';
import { layerBounds } from '../engine/grid/Square.js';
import { aheadOf, NO_EVENTS, stage, StepGate, type LookAhead, type Stage } from './stageInternals.js';

/**
 * Issues `load_activation`: the hidden states that the slot's previous layer stored elsewhere come back to where
 * computing happens. Where a run has a part of the model's layers only, its first layer's come from a peer (the model's
 * first layer gets the tokens that were sampled there): once the slot's last batch has left.
 *
 * @param lookAhead its `ahead`: squares whose activations may be loaded ahead of the one that is computed. Default 1
 */
export function loadActivation(run: StageContext, lookAhead: LookAhead = {}): Stage {
  const ahead = aheadOf(lookAhead);
  const { first } = layerBounds(run.grid);
  return stage(() => {
    const gate = new StepGate(ahead);
    const lastOfSlot = run.grid.part || run.grid.share ? new Map<number, IssuedSquare>() : undefined;
    return (square) => {
      gate.open(square);
      const routes = run.movement.loadActivation(square);
      const stored = run.lastStores.find('store_activation', square);
      const free =
        lastOfSlot && square.layer === first ? emptied(lastOfSlot.get(square.batch.slot), stored) : undefined;
      const stores = free ?? (routes.length === 0 ? NO_EVENTS : stored);
      const loads = run.issueMoves(
        square,
        'load_activation',
        routes,
        routes.length === 0 ? NO_EVENTS : [...gate.before(), ...stores],
      );
      // Where a batch enters and nothing is loaded for it, compute overwrites what the slot's last batch may still be
      // sent from.
      square.events.inputs.push(...(routes.length === 0 && free ? free : loads));
      lastOfSlot?.set(square.batch.slot, square);
    };
  });
}

/** Lists what has to complete before a slot can take the hidden states of another batch. */
function emptied(last: IssuedSquare | undefined, stores: readonly TaskEvent[]): readonly TaskEvent[] {
  const compute = last?.events.compute;
  return compute ? [...stores, compute] : stores;
}
