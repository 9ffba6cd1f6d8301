/** All that the command line uses of the library: one place to see it, and to change it. */
export {
  createTokenizer, diagonalBlock, Engine, formatBytes, InterruptedError, JobFileError, knownModels, parseBytes, readModel, resolveModel, rowByRow,
  serialPipeline, SpillwayError, UsageError, WEIGHT_COMPRESSIONS, zigZagBlock,
} from '../index.js';
export type {
  EngineOptions, ErrorCode, GenerateOptions, ModelSource, Progress, RunStats, Schedule, TensorInfo, Tokenizer, TraceEvent, WeightCompression,
} from '../index.js';
export {
  checkJobFiles, describeFileError, fileErrorCode, isBlank, isJsonObject, Job, openLines, parseRow, readRows, StreamWriter, writeFileAtomic,
} from '../jobs/index.js';
export type { JobOptions, JobSummary } from '../jobs/index.js';
export { pullModel } from '../model/pull/pullModel.js';
