// `spillway/operators`: stages and what composes them, and operators over streams of rows.
import '../requireNode.js';

export type { Composition, GenerationSource } from '../engine/rows/Generation.js';
export { iterated } from '../operators/iterated.js';
export { pulled, type Overflow, type PulledOptions } from '../operators/pulled.js';
export { squares } from '../operators/squares.js';
export { loadWeight } from '../operators/loadWeight.js';
export { loadCache } from '../operators/loadCache.js';
export { loadActivation } from '../operators/loadActivation.js';
export { compute } from '../operators/compute.js';
export { storeActivation } from '../operators/storeActivation.js';
export { storeCache } from '../operators/storeCache.js';
export { synchronize } from '../operators/synchronize.js';
export { maxInFlight, type InFlightLimit } from '../operators/maxInFlight.js';
export { overlap } from '../operators/overlap.js';
export { serialize } from '../operators/serialize.js';
export { defaultPipeline } from '../operators/defaultPipeline.js';
export { serialPipeline } from '../operators/serialPipeline.js';
export { finishedRows } from '../operators/finishedRows.js';
export { inputOrder } from '../operators/inputOrder.js';
export { type LookAhead, stage, type Stage } from '../operators/stageInternals.js';
export type { IssuedSquare, SquareEvents } from '../engine/execution/IssuedSquare.js';
export type { Run, StageContext } from '../engine/execution/Run.js';
export type { FollowingRun } from '../engine/execution/FollowingRun.js';
export type { Completion, Device, DevicePeers, DeviceRow, Pooling, Received } from '../engine/grid/Device.js';
export type { HeadOutput, QueueName, SampledToken, Task, TaskEvent, TaskName } from '../engine/grid/Task.js';
export type { ComputeTier, Place, Tier } from '../engine/grid/Tier.js';
