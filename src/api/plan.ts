// `spillway/plan`: which policy, and how fast: the cost model, the search, machines' profiles, the papers' closed
// forms.
import '../requireNode.js';

export type { RunCorrections } from '../engine/calibration/learn.js';
export type { WorkDone } from '../engine/calibration/learn.js';
export type { Corrections } from '../plan/corrections.js';
export type { PredictedRun } from '../engine/calibration/predictRun.js';
export type { Replan } from '../engine/calibration/WorkloadDrift.js';
export {
  closedForm,
  closedFormBytes,
  type ClosedForm,
  type MovedShares,
  type UniformRows,
} from '../plan/papers/closedForms.js';
export { blockGain, peakCacheTokens } from '../plan/papers/blockGain.js';
export { choosePolicy, type Choice, type RankedPlan } from '../plan/search/choosePolicy.js';
export { typicalProcessBytes } from '../plan/reserves.js';
export type { Spending } from '../plan/spending.js';
export { predict, type Prediction } from '../plan/predict.js';
export { planDocument, planDocumentInParts, type PlanDocument } from '../plan/document/planDocument.js';
export type { Advice } from '../plan/document/advise.js';
export {
  COST_MODEL_NAMES,
  type BlockCost,
  type BlockSetting,
  type CostModel,
  type CostModelName,
  type MemoryTerm,
  type PhaseCost,
} from '../plan/CostModel.js';
export type { Affine } from '../plan/Affine.js';
export type { PlacementVariable, PlacementVector } from '../plan/Placement.js';
export type { Allowed, MemoryCaps, PlanRequest } from '../plan/PlanRequest.js';
export { BLOCK_LIMITS, parsePolicy, type BlockChoice, type Compression, type Policy } from '../plan/Policy.js';
export type { UnpredictedOptions } from '../plan/unpredicted.js';
export { parseHardware, type HardwareProfile } from '../plan/HardwareProfile.js';
export type { ModelShape } from '../plan/ModelShape.js';
export type { Workload } from '../plan/Workload.js';
export {
  planPartitioning,
  type PartitionDocument,
  type PartitionPlan,
  type PhasePlan,
} from '../plan/partitioning/planPartitioning.js';
export type { PartitionRequest } from '../plan/partitioning/PartitionRequest.js';
export type { AxisSizes, Mesh } from '../plan/partitioning/Mesh.js';
export {
  type AttentionSharding,
  type LayoutName,
  LAYOUTS,
  type Partitioning,
  type WeightFormat,
} from '../plan/partitioning/Partitioning.js';
export type { PartitionedMemory, PhasePrediction } from '../plan/partitioning/predictPhase.js';
export { MOST_CHIPS, parseChip, type ChipProfile, type Interconnect } from '../plan/partitioning/ChipProfile.js';
export { chooseBlock, type SettledShares } from '../plan/search/chooseBlock.js';
export { profileMachine, type ProfileOptions, type ProfileProgress } from '../profile/profileMachine.js';
export { cachedProfile, refreshProfile } from '../profile/cachedProfile.js';
export { readChip, readHardware } from '../profile/readHardware.js';
export { readModelShape } from '../engine/open/readModelShape.js';
export { planSweep, readSweepFile, type Sweep, type SweepFile, type SweepLine } from '../planSweep.js';
export { simulatePlan, type SimulatedPlan, type SimulateOptions } from '../simulatePlan.js';
export { planPipeline, planPipelineInParts } from '../plan/pipeline/planPipeline.js';
export {
  planPrompts,
  planPromptsInParts,
  type PromptsMachine,
  type PromptsPlan,
} from '../plan/pipeline/planPrompts.js';
export {
  planTensorParallel,
  planTensorParallelInParts,
  type TensorParallelPlan,
} from '../plan/pipeline/planTensorParallel.js';
export { predictPipeline, type SettledPipeline } from '../plan/pipeline/predictPipeline.js';
export type { PipelinePlan, PlannedStage } from '../plan/pipeline/pipelineOfStages.js';
export type { PipelineRequest } from '../plan/pipeline/PipelineRequest.js';
export type { PipelineLink, PipelineMachine } from '../plan/pipeline/Machines.js';
export { readMachines } from '../profile/readMachines.js';
export { simulatePipeline, type SimulatedPipeline, type SimulatePipelineOptions } from '../simulatePipeline.js';
export { planCurves, planCurvesInParts, type Curve, type PlanCurves } from '../plan/document/planCurves.js';
export { parsePolicyDocument } from '../plan/Policy.js';
export { repackedModelBytes, type RepackedModel } from '../engine/open/repackedModelBytes.js';
export { readPolicyFile } from '../profile/readPolicyFile.js';
export { readHardwareFile } from '../profile/readHardware.js';
