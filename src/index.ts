// What users import. Nothing else of the package is reachable.
import './requireNode.js';

// Engine
export { Engine, type RowSource } from './Engine.js';
export type { EngineOptions, EngineShares } from './EngineOptions.js';
export type { EnginePlan } from './engine/open/EnginePlan.js';
export type { StoreHolder } from './engine/store/storeHolder.js';
export { resultIdentityKey, type GpuIdentity, type ResultIdentity } from './engine/open/resultIdentity.js';
export type { ExpectedRows } from './ExpectedRows.js';
export type { RunCorrections } from './engine/calibration/RunCorrections.js';
export type { WorkDone } from './plan/corrections/learn.js';
export type { Corrections } from './plan/corrections/workKinds.js';
export type { PredictedRun } from './engine/calibration/predictRun.js';
export type { Replan } from './engine/calibration/WorkloadDrift.js';
export { WEIGHT_COMPRESSIONS, type WeightCompression } from './model/compressBindings.js';
export type { GpuProducts } from './bindings/Gpu.js';
export type { PerplexityOptions } from './engine/rows/checkPerplexity.js';
export type { Perplexity } from './engine/rows/perplexityOf.js';
export type {
  AnswerRunOptions,
  Composition,
  FollowOptions,
  Generation,
  GenerationSource,
  RunOptions,
  ValueOf,
} from './engine/rows/Generation.js';
export type { RowLookAhead } from './engine/rows/rowLookAhead.js';
export type { Progress, RunStats, TraceEvent } from './RunStats.js';
export { formatBytes, parseBytes, type Size } from './units.js';

// Engines that share a model's layers
export {
  activationLink,
  type ActivationLink,
  type ActivationSink,
  type ActivationSource,
} from './engine/peers/ActivationLink.js';
export type { Peers } from './engine/peers/PeerConnection.js';
export type {
  BeginMessage,
  CloseMessage,
  FreeMessage,
  HeadMessage,
  HiddenMessage,
  OpenMessage,
  PeerMessage,
  SweepMessage,
} from './engine/peers/PeerMessage.js';
export type { SharedPrefix } from './engine/memory/SharedPrefix.js';
export type { LayerRange } from './model/partOf.js';

// Rows
export type {
  BadRow,
  FinishReason,
  GenerateOptions,
  PromptOptions,
  Reasoning,
  Row,
  RowFailure,
  RowInput,
  RowPrompt,
  RowResult,
  RowSettings,
  SamplingOptions,
} from './Row.js';

// Answers that are held to a format
export type { ResponseFormat } from './rows/responseFormat.js';
export type { AnswerSchema } from './schema/zodJsonSchema.js';
export type { DeclaredProperty, PropertyType } from './schema/declaredProperties.js';
export { EnforcedSchema } from './schema/EnforcedSchema.js';
export type {
  AnswerOptions,
  AnyResult,
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  ResultBase,
  ScoreOptions,
  ScoreResult,
} from './Results.js';
export type { AnswerKind, Answers } from './engine/rows/Answers.js';

// Answers, and a file in which they last
export type {
  AnswerStore,
  ClassifiedAnswer,
  CompletionScore,
  EmbeddedAnswer,
  GeneratedAnswer,
  KeptAnswer,
  KeptAnswers,
  ScoredAnswer,
  TokenLogprob,
} from './KeptAnswer.js';
export { ReuseFile, type ReuseOptions } from './reuse/ReuseFile.js';

// Operators: whole generations
export { offloadGenerate } from './operators/offloadGenerate.js';
export { classify } from './operators/classify.js';
export { score } from './operators/score.js';
export { embed } from './operators/embed.js';
export type { AnswerSource } from './operators/answeredBy.js';
export { generatedRows } from './operators/generatedRows.js';
export { iterated } from './operators/iterated.js';
export { pulled, type Overflow, type PulledOptions } from './operators/pulled.js';

// Operators: squares and stages
export { squares } from './operators/squares.js';
export { loadWeight } from './operators/loadWeight.js';
export { loadCache } from './operators/loadCache.js';
export { loadActivation } from './operators/loadActivation.js';
export { compute } from './operators/compute.js';
export { storeActivation } from './operators/storeActivation.js';
export { storeCache } from './operators/storeCache.js';
export { synchronize } from './operators/synchronize.js';
export { maxInFlight, type InFlightLimit } from './operators/maxInFlight.js';
export { overlap } from './operators/overlap.js';
export { serialize } from './operators/serialize.js';
export { defaultPipeline } from './operators/defaultPipeline.js';
export { serialPipeline } from './operators/serialPipeline.js';
export { finishedRows } from './operators/finishedRows.js';
export { inputOrder } from './operators/inputOrder.js';
export type { LookAhead, Stage } from './operators/stageInternals.js';
export type { IssuedSquare, SquareEvents } from './engine/execution/IssuedSquare.js';
export type { Run, StageContext } from './engine/execution/Run.js';
export type { FollowingRun } from './engine/execution/FollowingRun.js';
export type { Completion, Device, DevicePeers, DeviceRow, Pooling, Received } from './engine/grid/Device.js';
export type { HeadOutput, QueueName, SampledToken, Task, TaskEvent, TaskName } from './engine/grid/Task.js';
export type { ComputeTier, Place, Tier } from './engine/grid/Tier.js';
export { SimulatedDevice, type SimulationOptions } from './engine/execution/SimulatedDevice.js';
export { VirtualTime } from './engine/execution/VirtualTime.js';

// Schedules
export { diagonalBlock } from './engine/schedules/diagonalBlock.js';
export { rowByRow } from './engine/schedules/rowByRow.js';
export { zigZagBlock } from './engine/schedules/zigZagBlock.js';
export { validatePath } from './engine/schedules/validatePath.js';
export type { JudgedRow, SharedStretch } from './engine/schedules/PathChecker.js';
export { recordsOfTrace, rowsOfTrace, type TracedPath } from './engine/schedules/recordsOfTrace.js';
export type { MoveName, PathMove, PathRecord, RequiredMoves } from './engine/schedules/PathRecord.js';
export type { PathRules, TierUsage } from './engine/schedules/PathRules.js';
export { requiredMoves } from './engine/memory/requiredMoves.js';
export {
  closedForm,
  closedFormBytes,
  type ClosedForm,
  type MovedShares,
  type UniformRows,
} from './plan/papers/closedForms.js';
export { blockGain, peakCacheTokens } from './plan/papers/blockGain.js';
export type { AdmittedRow, Observed, Schedule } from './engine/schedules/Schedule.js';
export {
  layerBounds,
  type Batch,
  type Grid,
  type HeadMode,
  type LayerBounds,
  type RowId,
  type RowRange,
  type Square,
} from './engine/grid/Square.js';

// Plans: which policy, and how fast
export { choosePolicy, type Choice, type RankedPlan } from './plan/choosePolicy.js';
export { predict, type Prediction } from './plan/predict.js';
export { planDocument, type PlanDocument } from './plan/planDocument.js';
export type { Advice } from './plan/advise.js';
export type { Allowed, MemoryCaps, PlanRequest } from './plan/PlanRequest.js';
export { parsePolicy, type BlockChoice, type Compression, type Policy, type ScheduleName } from './plan/Policy.js';
export { parseHardware, type HardwareProfile } from './plan/HardwareProfile.js';
export type { ModelShape } from './plan/ModelShape.js';
export type { Workload } from './plan/Workload.js';
export { chooseBlock, type SettledShares } from './plan/chooseBlock.js';
export { profileMachine, type ProfileOptions, type ProfileProgress } from './profile/profileMachine.js';
export { cachedProfile, refreshProfile } from './profile/cachedProfile.js';
export { readHardware } from './profile/readHardware.js';
export { readModelShape } from './engine/open/readModelShape.js';
export { splitThreads, type ThreadedWork, type ThreadSplit } from './plan/papers/splitThreads.js';
export { simulatePlan, type SimulatedPlan, type SimulateOptions } from './simulatePlan.js';

// Jobs: files in, files out, each row exactly once
export { runJob, type RunJobOptions } from './jobs/runJob.js';
export { Job } from './jobs/Job.js';
export { checkJobFiles, type JobFileOptions, type JobFileState } from './jobs/jobFiles.js';
export type { JobOptions, JobSummary, RowGenerator } from './jobs/JobOptions.js';
export type { JobTaskName } from './Results.js';
export { readRows, openLines, type ByteSource, type ReadRowsOptions } from './jobs/input/readRows.js';
export { readSql, type ReadSqlOptions } from './jobs/input/readSql.js';
export { readRecordBatches, type ReadRecordBatchesOptions } from './jobs/arrow/readRecordBatches.js';
export { recordBatches, type ArrowLibrary, type RecordBatchesOptions } from './jobs/arrow/recordBatches.js';
export type { ArrowBatch } from './jobs/arrow/ArrowBatch.js';
export type { InputPaths } from './jobs/input/inputFiles.js';
export { encodeResults, type EncodeResultsOptions } from './jobs/output/encodeResults.js';
export type { ResultTableOptions } from './jobs/output/resultsAlone.js';
export { writeRows } from './jobs/output/StreamWriter.js';
export { parseRow } from './jobs/formats/parseRow.js';
export { formatResult } from './jobs/formats/formatResult.js';
export type {
  FinishedRow,
  ReadOptions,
  RowFormat,
  RowSource as FormatSource,
  WriteOptions,
} from './jobs/formats/RowFormat.js';
export type { FormatChoice } from './jobs/formats/rowFormats.js';
export type { CsvDialect, Table } from './jobs/formats/Table.js';
export type { ColumnKind } from './jobs/formats/Table.js';
export type { Column as ParquetColumn, Leaf as ParquetLeaf } from './jobs/formats/parquet/schema.js';
export type { MaxErrors } from './jobs/ErrorLimit.js';

// Models
export { readModel } from './model/readModel.js';
export {
  identifyModel,
  type FileIdentity,
  type FoundFile,
  type IdentifyOptions,
  type ModelIdentity,
} from './model/identity/identifyModel.js';
export { createTokenizer } from './model/createTokenizer.js';
export { knownModels, resolveModel } from './model/resolveModel.js';
export type { KnownModel } from './model/pull/KnownModel.js';
export type { PullOptions } from './model/pull/pullModel.js';
export type { PullProgress } from './model/pull/ModelDownload.js';
export type { DecoderSpec, LayerSpec, RotaryTable } from './model/DecoderSpec.js';
export type { ModelSource, TensorInfo, TokenizerSource } from './model/ModelSource.js';
export type { ChatMessage, ReasoningMarks, TemplateInput, Tokenizer } from './model/Tokenizer.js';
export type { WeightType } from './model/weightTypes.js';

// Errors
export { SpillwayError, type ErrorCode } from './errors/SpillwayError.js';
export { DownloadError } from './errors/ModelFileError.js';
export { InterruptedError } from './errors/InterruptedError.js';
export { JobFileError } from './errors/JobFileError.js';
export { MemoryBudgetError } from './errors/MemoryBudgetError.js';
export { PeerError } from './errors/engineErrors.js';
export { ModelFileError } from './errors/ModelFileError.js';
export { NativeError } from './errors/engineErrors.js';
export { PlanFileError } from './errors/ModelFileError.js';
export { ResponseFormatError } from './errors/RowError.js';
export { RowError, type RowErrorCode } from './errors/RowError.js';
export { ScheduleError, type PathConstraint } from './errors/engineErrors.js';
export { TaskError } from './errors/engineErrors.js';
export { UsageError } from './errors/UsageError.js';
