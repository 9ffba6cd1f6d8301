// `spillway/models`: model files, their names, where they come from, what is in them.
import '../requireNode.js';

export { modelFiles } from '../model/modelFiles.js';
export { readModel } from '../model/readModel.js';
export {
  identifyModel,
  type FileIdentity,
  type FoundFile,
  type IdentifyOptions,
  type ModelIdentity,
} from '../model/identity/identifyModel.js';
export { createTokenizer } from '../model/createTokenizer.js';
export { knownModels, resolveModel } from '../model/resolveModel.js';
export type { KnownModel } from '../model/pull/knownModels.js';
export type { PullOptions } from '../model/pull/pullModel.js';
export type { PullProgress } from '../model/pull/ModelDownload.js';
export type { DecoderSpec, LayerSpec, RotaryTable } from '../model/DecoderSpec.js';
export type { ModelSource, TensorInfo, TokenizerSource } from '../model/ModelSource.js';
export type { ChatMessage, ReasoningMarks, TemplateInput, Tokenizer } from '../model/Tokenizer.js';
export type { WeightType } from '../model/weightTypes.js';
export { isModelName } from '../model/resolveModel.js';
export { suggestedModels, type SuggestedModel } from '../model/pull/suggestedModels.js';
export { removeRepackedStore, repackedStores, type RepackedStore } from '../engine/store/repackedStores.js';
export { cachedModels, removeCachedModel, type CachedModel } from '../model/cachedModels.js';
