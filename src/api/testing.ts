// `spillway/testing`: what a schedule's or an operator's author tests with: a simulated device, virtual time, checks of
// paths.
import '../requireNode.js';

export { SimulatedDevice, type SimulationOptions } from '../engine/execution/SimulatedDevice.js';
export { simulatedLink } from '../engine/execution/simulatedLink.js';
export { VirtualTime } from '../engine/execution/VirtualTime.js';
export { taskMarbles, type TaskMarblesOptions } from '../engine/grid/taskMarbles.js';
export { validatePath } from '../engine/schedules/validatePath.js';
export type { JudgedRow, SharedStretch } from '../engine/schedules/PathChecker.js';
export { recordsOfTrace, rowsOfTrace, type TracedPath } from '../engine/schedules/recordsOfTrace.js';
export type { MoveName } from '../engine/grid/Task.js';
export type { PathMove, PathRecord, RequiredMoves } from '../engine/schedules/PathRecord.js';
export type { PathRules, TierUsage } from '../engine/schedules/PathRecord.js';
export { requiredMoves } from '../engine/memory/movement.js';
