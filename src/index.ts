// What users import. Nothing else of the package is reachable.
import './requireNode.js';

// Engine
export { Engine, type RowSource } from './Engine.js';
export type { EngineOptions, EngineShares } from './EngineOptions.js';
export {
  ENGINE_OPTIONS,
  type EngineOption,
  type FlaggedOption,
  type OptionGroup,
  type OptionValue,
} from './engine/open/engineOptions.js';
export type { EnginePlan } from './engine/open/EnginePlan.js';
export type { StoreHolder } from './engine/store/storeHolder.js';
export { resultIdentityKey, type GpuIdentity, type ResultIdentity } from './engine/open/resultIdentity.js';
export type { ExpectedRows } from './ExpectedRows.js';

export {
  WEIGHT_COMPRESSIONS,
  WEIGHTS_LAYOUTS,
  type WeightCompression,
  type WeightsLayout,
} from './model/compressBindings.js';
export type { GpuProducts } from './bindings/Gpu.js';
export type { Perplexity, PerplexityOptions } from './engine/rows/perplexity.js';
export type {
  AnswerRunOptions,
  FollowOptions,
  GeneratedResults,
  RowEvent,
  RunOptions,
  RunResults,
  ValueOf,
} from './engine/rows/Generation.js';
export { RUN_OPTIONS } from './engine/rows/runOptionValues.js';
export type { NumberRange } from './arguments/NumberRange.js';
export { diagnose, type Diagnosis } from './diagnose.js';
export type { RowLookAhead } from './engine/rows/rowLookAhead.js';
export type { CascadeModelStats, EngineActivity, Progress, RunStats, TaskStretch, TraceEvent } from './RunStats.js';
export type { Spending } from './plan/spending.js';
export { formatBytes, parseBytes, type Size } from './units.js';

// Engines that share a model's layers
export {
  activationLink,
  type ActivationLink,
  type ActivationSink,
  type ActivationSource,
} from './engine/peers/ActivationLink.js';
export type { Peers } from './engine/peers/PeerConnection.js';
export type { ConnectedPeers } from './engine/peers/sockets/connectPeers.js';
export { describePeers, ringIdentity, type PeerDescription } from './engine/peers/sockets/describePeers.js';
export type { BlockShape } from './engine/peers/PeerMessage.js';
export type { HiddenStates } from './engine/grid/HiddenStates.js';
export type { LayerPlace } from './engine/peers/sockets/layerPlace.js';
export type { PeerListener } from './engine/peers/sockets/PeerListener.js';
export type { PeerCertificates, PeerSecurity } from './engine/peers/sockets/PeerSecurity.js';
export { type PeerAddress, parsePeerAddress } from './engine/peers/sockets/PeerAddress.js';
export {
  type ListenOptions,
  type ServedRun,
  SOCKET_OPTIONS,
  type SocketOptions,
} from './engine/peers/sockets/SocketOptions.js';
export type {
  BeginMessage,
  CloseMessage,
  FreeMessage,
  HeadMessage,
  HiddenMessage,
  OpenMessage,
  PartialMessage,
  PeerMessage,
  SweepMessage,
} from './engine/peers/PeerMessage.js';

export type { LayerRange } from './model/partOf.js';
export type { LayerShare } from './model/dividedLayer.js';

// Rows
export type {
  BadRow,
  FinishReason,
  GenerateOptions,
  PromptOptions,
  QuestionAnswer,
  RowChunk,
  Reasoning,
  Truncation,
  Row,
  RowDelta,
  RowFailure,
  RowInput,
  RowPrompt,
  RowResult,
  RowSettings,
  SamplingOptions,
  ToolOptions,
} from './Row.js';
export { partialJson } from './rows/partialJson.js';
export type { ChunkOptions, ChunkPlace, MergedParts } from './rows/chunks.js';
export type { Question } from './rows/questions.js';
export type { NamedFunction, ToolCall, ToolCallDelta, ToolChoice } from './rows/toolCalls.js';

// Answers that are held to a format
export type { ResponseFormat } from './rows/responseFormat.js';
export type { AnswerSchema } from './schema/zodJsonSchema.js';
export type { DeclaredProperty, PropertyType } from './schema/declaredProperties.js';

export type {
  AnswerOptions,
  AnyResult,
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  VectorRanges,
  VectorType,
  EmbedResult,
  EmbeddedChunk,
  ResultBase,
  ScoreOptions,
  RerankOptions,
  RerankResult,
  ScoreResult,
} from './Results.js';
export type { Label } from './Row.js';
export type { AnswerKind, Answers } from './engine/rows/Answers.js';

// Answers, and a file in which they last
export type {
  AnswerStore,
  Certainty,
  ClassifiedAnswer,
  CompletionScore,
  DocumentScore,
  EmbeddedAnswer,
  GeneratedAnswer,
  KeptAnswer,
  KeptAnswers,
  RankedAnswer,
  ScoredAnswer,
  TokenLogprob,
} from './KeptAnswer.js';
export { ReuseFile, type ReuseOptions } from './reuse/ReuseFile.js';

// Cascades: rows go on to the next model where one is not sure enough
export { Cascade } from './cascade/Cascade.js';
export type { CascadeEngine, CascadeStage, OpenedCascadeEngine } from './cascade/CascadeStage.js';
export type { LearnedThreshold } from './cascade/learnedThreshold.js';
export {
  type CascadePromise,
  leastCascadeSample,
  type LearnedCascade,
  type LearnOptions,
  learnThresholds,
} from './cascade/learnThresholds.js';
export { KeptSample } from './cascade/KeptSample.js';

// Operators: whole generations
export { offloadGenerate } from './operators/offloadGenerate.js';
export { ask, type AskingSource } from './operators/ask.js';
export { classify } from './operators/classify.js';
export { score } from './operators/score.js';
export { rerank } from './operators/rerank.js';
export { embed } from './operators/embed.js';
export type { AnswerSource } from './operators/answeredBy.js';

// Errors
export { SpillwayError, type ErrorCode } from './errors/SpillwayError.js';
export { DownloadError } from './errors/ModelFileError.js';
export { InterruptedError } from './errors/InterruptedError.js';
export { JobFileError } from './errors/JobFileError.js';
export { DatabaseError } from './errors/DatabaseError.js';
export { QueueError } from './errors/QueueError.js';
export { ProcessLimitError } from './errors/ProcessLimitError.js';
export { MemoryBudget } from './MemoryBudget.js';
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
