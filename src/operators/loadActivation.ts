import type { StageContext } from '../engine/execution/Run.js';
import { NO_EVENTS, stage, StepGate, type LookAhead, type Stage } from './stageInternals.js';
import { activationStores } from './storeActivation.js';

/**
 * Issues `load_activation`: the hidden states that the slot's previous layer stored elsewhere come back to where computing happens.
 *
 * @param lookAhead its `ahead`: squares whose activations may be loaded ahead of the one that is computed. Default 1
 */
export function loadActivation(run: StageContext, lookAhead: LookAhead = {}): Stage {
  const { ahead = 1 } = lookAhead;
  const gate = new StepGate(ahead);
  return stage((square) => {
    gate.open(square);
    const routes = run.movement.loadActivation(square);
    const after = routes.length === 0 ? NO_EVENTS : [...gate.before(), ...activationStores.find(run, square)];
    square.events.inputs.push(...run.issueMoves(square, 'load_activation', routes, after));
  });
}
