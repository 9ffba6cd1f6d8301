// `spillway/ai-sdk`: a provider of the AI SDK (`ai` 7), whose models are computed in this process.
import '../requireNode.js';

export {
  createSpillway,
  spillway,
  type SpillwayProvider,
  type SpillwayProviderOptions,
} from '../aiSdk/createSpillway.js';
export type {
  SpillwayAnswerOptions,
  SpillwayEmbeddingOptions,
  SpillwayLanguageOptions,
} from '../aiSdk/providerOptions.js';
