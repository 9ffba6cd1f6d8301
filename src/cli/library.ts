/**
 * All that the command line uses of the library: one place to see it, and to change it. First what any user has, by
 * entry; below, what is not public.
 */
export {
  checkJobFiles,
  collectJob,
  EnforcedSchema,
  type FormatChoice,
  Job,
  type JobManifest,
  type JobOptions,
  jobStatus,
  type JobStatus,
  type JobSummary,
  type JobTaskName,
  type MaxErrors,
  openLines,
  openWorkSource,
  parseRow,
  readRows,
  type ReadRowsOptions,
  readSql,
  type RowGenerator,
  runWork,
  type Shard,
  type ShardEvent,
  shardOfEnvironment,
  shardPath,
  submitJob,
  type WorkSource,
} from '../api/jobs.js';
export {
  cachedModels,
  createTokenizer,
  identifyModel,
  isModelName,
  knownModels,
  type ModelSource,
  type PullProgress,
  readModel,
  removeCachedModel,
  resolveModel,
  suggestedModels,
  type TensorInfo,
  type Tokenizer,
} from '../api/models.js';
export { serialPipeline } from '../api/operators.js';
export {
  type Compression,
  type Curve,
  type HardwareProfile,
  parsePolicyDocument,
  planCurves,
  type PlanCurves,
  type PipelinePlan,
  type PlanDocument,
  planDocument,
  planPipeline,
  planPartitioning,
  type PartitionDocument,
  type PartitionPlan,
  type PhasePlan,
  type Mesh,
  type WeightFormat,
  type PlanRequest,
  type Policy,
  type ProfileOptions,
  type ProfileProgress,
  readChip,
  readHardware,
  readHardwareFile,
  readMachines,
  readModelShape,
  refreshProfile,
  type SimulatedPipeline,
  type SimulatedPlan,
  simulatePipeline,
  simulatePlan,
} from '../api/plan.js';
export {
  diagonalBlock,
  rowByRow,
  type Schedule,
  SCHEDULE_NAMES,
  type ScheduleName,
  zigZagBlock,
} from '../api/schedules.js';
export {
  type AnyResult,
  type ClassifyOptions,
  type ConnectedPeers,
  type HiddenStates,
  describePeers,
  ringIdentity,
  type EmbedOptions,
  Engine,
  type EngineOptions,
  type EnginePlan,
  type ErrorCode,
  type ExpectedRows,
  formatBytes,
  type GenerateOptions,
  InterruptedError,
  JobFileError,
  type LayerRange,
  MemoryBudgetError,
  parseBytes,
  type PeerCertificates,
  PlanFileError,
  type Progress,
  type PromptOptions,
  QueueError,
  type Reasoning,
  type ResponseFormat,
  ResponseFormatError,
  ReuseFile,
  RowError,
  type RowInput,
  type RowLookAhead,
  type RowResult,
  type RunOptions,
  type RunStats,
  type ScoreOptions,
  type ServedRun,
  type SocketOptions,
  SpillwayError,
  type TraceEvent,
  UsageError,
} from '../index.js';

export { EMBEDDING_ENCODINGS, POOLINGS } from '../Results.js';
export { REASONING } from '../Row.js';
export { isWithin, type NumberRange, rangeWords, wholeRange } from '../arguments/NumberRange.js';
export { isObject } from '../arguments/isObject.js';
export { didYouMean, nearest } from '../arguments/nearest.js';
export type { MachineFacts } from '../bindings/Addon.js';
export { addonPath, loadAddon } from '../bindings/loadAddon.js';
export { defaultDiskFolder } from '../engine/open/diskFolder.js';
export { ENGINE_OPTIONS, type EngineOption, type FlaggedOption } from '../engine/open/engineOptions.js';
export { HIDDEN_STATES } from '../engine/grid/HiddenStates.js';
export { parseAddress } from '../engine/peers/sockets/PeerAddress.js';
export { PEER_SECONDS, SILENCE_SECONDS, SOCKET_DEFAULTS } from '../engine/peers/sockets/SocketOptions.js';
export { checkedCompletions, forTheRun } from '../engine/rows/completionTokens.js';
export { prepareRow, SAMPLING_RANGES } from '../engine/rows/prepareRow.js';
export { ROWS_AHEAD } from '../engine/rows/rowLookAhead.js';
export { probeFile, probeFolder, writeFileAtomic } from '../files/atomicFile.js';
export { userCacheFolder } from '../files/cacheFolder.js';
export { bytesOf } from '../files/fileBytes.js';
export { describeFileError, fileErrorCode, fileFailure } from '../files/fileErrors.js';
export { checkDistinctFiles, type NamedFile } from '../files/realPath.js';
export { specialKind } from '../files/specialFiles.js';
export { checkMaxErrors } from '../jobs/ErrorLimit.js';
export { checkColumns, checkDelimiter, checkNamesOfColumns, checkResultColumns } from '../jobs/formats/checkColumns.js';
export { isBlank } from '../jobs/formats/readLines.js';
export { FORMAT_NAMES, isFormatName } from '../jobs/formats/rowFormats.js';
export { inputFiles } from '../jobs/input/inputFiles.js';
export { type JobFormats, jobFormats } from '../jobs/jobFormats.js';
export { StreamWriter } from '../jobs/output/StreamWriter.js';
export { checkIndex, SHARD_ROWS, SHARDS } from '../jobs/shards/Shard.js';
export { errorFiles, outputFiles } from '../jobs/output/sidecarFiles.js';
export { answerProperties } from '../jobs/output/writeOptions.js';
export { LEASE_SECONDS, MAX_DELIVER } from '../jobs/work/JobManifest.js';
export { checkJobName } from '../jobs/work/QueueAddress.js';
export { ROW_LIMITS } from '../model/files/limits.js';
export { readJsonObject } from '../model/files/readJson.js';
export { hubCacheFolder } from '../model/hub/hubSettings.js';
export { modelFiles } from '../model/modelFiles.js';
export { oldNode } from '../oldNode.js';
export { packageRoot } from '../packageRoot.js';
export { MOST_CHIPS } from '../plan/partitioning/ChipProfile.js';
export { LAYOUTS } from '../plan/partitioning/Partitioning.js';
export { BLOCK_LIMITS } from '../plan/Policy.js';
export { PROCESS_BYTES } from '../plan/reserves.js';
export { Turns } from '../rows/Turns.js';
export { commonTokens } from '../rows/commonTokens.js';
export { checkPromptTemplate } from '../rows/promptTemplate.js';
export { ROW_SECONDS } from '../rows/rowFields.js';
export { checkTemplateInput } from '../rows/templateInput.js';
export { sizeOr } from '../units.js';
