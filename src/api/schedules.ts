// `spillway/schedules`: in which order squares come.
import '../requireNode.js';

export type { SharedPrefix } from '../engine/memory/PageNumbers.js';
export {
  BLOCK_SCHEDULES,
  diagonalBlock,
  rowByRow,
  SCHEDULE_NAMES,
  zigZagBlock,
  type NamedSchedule,
  type ScheduleName,
} from '../engine/schedules/blockSchedules.js';
export type { AdmittedRow, Observed, Schedule } from '../engine/schedules/Schedule.js';
export {
  batchTokens,
  layerBounds,
  type Batch,
  type Grid,
  type HeadMode,
  type LayerBounds,
  type RowId,
  type RowRange,
  type Square,
} from '../engine/grid/Square.js';
