/** All that the command line uses of the library: one place to see it, and to change it. */
export { Engine } from '../Engine.js';
export type { EngineOptions } from '../EngineOptions.js';
export { diagonalBlock } from '../engine/schedules/diagonalBlock.js';
export { rowByRow } from '../engine/schedules/rowByRow.js';
export type { Schedule } from '../engine/schedules/Schedule.js';
export { zigZagBlock } from '../engine/schedules/zigZagBlock.js';
export { InterruptedError } from '../errors/InterruptedError.js';
export { JobFileError } from '../errors/JobFileError.js';
export { SpillwayError, type ErrorCode } from '../errors/SpillwayError.js';
export { UsageError } from '../errors/UsageError.js';
export {
  checkJobFiles, describeFileError, fileErrorCode, isBlank, isJsonObject, Job, openLines, parseRow, readRows, StreamWriter, writeFileAtomic, type JobOptions, type JobSummary,
} from '../jobs/index.js';
export { createTokenizer } from '../model/createTokenizer.js';
export type { ModelSource, TensorInfo } from '../model/ModelSource.js';
export { pullModel } from '../model/pull/pullModel.js';
export { readModel } from '../model/readModel.js';
export { knownModels, resolveModel } from '../model/resolveModel.js';
export type { Tokenizer } from '../model/Tokenizer.js';
export type { GenerateOptions } from '../Row.js';
export type { Progress, RunStats, TraceEvent } from '../RunStats.js';
export { formatBytes, parseBytes } from '../units.js';
