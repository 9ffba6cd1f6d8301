/** All that the command line uses of the library: one place to see it, and to change it. */
export { createTokenizer, identifyModel, knownModels, readModel, resolveModel } from '../api/models.js';
export { diagonalBlock, rowByRow, zigZagBlock } from '../api/schedules.js';
export { EnforcedSchema } from '../api/jobs.js';
export {
  Engine,
  formatBytes,
  InterruptedError,
  JobFileError,
  MemoryBudgetError,
  parseBytes,
  ResponseFormatError,
  ReuseFile,
  RowError,
  SpillwayError,
  UsageError,
  WEIGHT_COMPRESSIONS,
} from '../index.js';
export { serialPipeline } from '../api/operators.js';
export type {
  EngineOptions,
  EnginePlan,
  ErrorCode,
  ExpectedRows,
  GenerateOptions,
  GpuProducts,
  Progress,
  ResponseFormat,
  RowLookAhead,
  RunStats,
  TraceEvent,
  WeightCompression,
} from '../index.js';
export type { ModelSource, PullProgress, TensorInfo, Tokenizer } from '../api/models.js';
export type { Schedule } from '../api/schedules.js';
export { fileErrorCode, describeFileError, fileFailure } from '../files/fileErrors.js';
export { bytesOf } from '../files/fileBytes.js';
export { probeFile, probeFolder, writeFileAtomic } from '../files/atomicFile.js';
export { checkDistinctFiles, type NamedFile } from '../files/realPath.js';
export { specialKind } from '../files/specialFiles.js';
export { checkColumns, checkDelimiter, checkNamesOfColumns, checkResultColumns } from '../jobs/formats/checkColumns.js';
export { parseRow } from '../jobs/formats/parseRow.js';
export { isBlank } from '../jobs/formats/readLines.js';
export { FORMAT_NAMES, type FormatChoice } from '../jobs/formats/rowFormats.js';
export { openLines, readRows, type ReadRowsOptions } from '../jobs/input/readRows.js';
export { readSql } from '../jobs/input/readSql.js';
export { errorFiles, outputFiles } from '../jobs/output/sidecarFiles.js';
export { StreamWriter } from '../jobs/output/StreamWriter.js';
export { answerProperties } from '../jobs/output/writeOptions.js';
export { checkMaxErrors, type MaxErrors } from '../jobs/ErrorLimit.js';
export { Job } from '../jobs/Job.js';
export { checkJobFiles } from '../jobs/jobFiles.js';
export { jobFormats, type JobFormats } from '../jobs/jobFormats.js';
export type { JobOptions, JobSummary, RowGenerator } from '../jobs/JobOptions.js';
export { commonTokens } from '../rows/commonTokens.js';
export { prepareRow } from '../engine/rows/prepareRow.js';
export { REASONING, type PromptOptions, type Reasoning, type RowInput, type RowResult } from '../Row.js';
export {
  EMBEDDING_ENCODINGS,
  POOLINGS,
  type AnyResult,
  type ClassifyOptions,
  type EmbedOptions,
  type JobTaskName,
  type ScoreOptions,
} from '../Results.js';
export type { RunOptions } from '../engine/rows/Generation.js';
export { checkedCompletions, forTheRun } from '../engine/rows/completionTokens.js';
export { checkPromptTemplate } from '../rows/promptTemplate.js';
export { checkTemplateInput } from '../rows/templateInput.js';
export { modelFiles } from '../model/modelFiles.js';
export { ROW_LIMITS } from '../model/files/limits.js';
export { Turns } from '../rows/Turns.js';
export { readJsonObject } from '../model/files/readJson.js';
export { isModelName } from '../model/resolveModel.js';
export { suggestedModels } from '../model/pull/suggestedModels.js';
export { cachedModels, removeCachedModel } from '../model/cachedModels.js';
export { PlanFileError } from '../errors/ModelFileError.js';
export { BLOCK_SCHEDULES, SCHEDULE_NAMES, type ScheduleName } from '../engine/schedules/blockSchedules.js';
export { planCurves, type Curve, type PlanCurves } from '../plan/planCurves.js';
export { planDocument, type PlanDocument } from '../plan/planDocument.js';
export type { Compression, Policy } from '../plan/Policy.js';
export { parsePolicyDocument } from '../plan/parsePolicyDocument.js';
export type { PlanRequest } from '../plan/PlanRequest.js';
export { refreshProfile } from '../profile/cachedProfile.js';
export type { ProfileOptions, ProfileProgress } from '../profile/profileMachine.js';
export type { HardwareProfile } from '../plan/HardwareProfile.js';
export { readHardware, readHardwareFile } from '../profile/readHardware.js';
export { packageRoot } from '../packageRoot.js';
export { addonPath, loadAddon } from '../bindings/loadAddon.js';
export type { MachineFacts } from '../bindings/Addon.js';
export { defaultDiskFolder } from '../engine/open/defaultDiskFolder.js';
export { hubCacheFolder } from '../model/hub/hubSettings.js';
export { userCacheFolder } from '../files/cacheFolder.js';
export { oldNode } from '../oldNode.js';
export { isObject } from '../arguments/isObject.js';
export { didYouMean, nearest } from '../arguments/nearest.js';
export { BLOCK_LIMITS } from '../plan/blockLimits.js';
export { isWithin, rangeWords, wholeRange, type NumberRange } from '../arguments/NumberRange.js';
export { KEPT_SHARE } from '../engine/open/validateOptions.js';
export { SAMPLING_RANGES } from '../engine/rows/prepareRow.js';
export { ROWS_AHEAD } from '../engine/rows/rowLookAhead.js';
export { ROW_SECONDS } from '../rows/rowFields.js';
export { sizeOr } from '../units.js';
export { PROCESS_BYTES } from '../plan/reserves.js';
export { readModelShape } from '../engine/open/readModelShape.js';
export { simulatePlan, type SimulatedPlan } from '../simulatePlan.js';
