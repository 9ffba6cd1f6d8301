import { join } from 'node:path';
import {
  type EmbeddingModelV4,
  type Experimental_BatchV4,
  type Experimental_DecisionModelV4,
  type Experimental_ExtractionModelV4,
  type LanguageModelV4,
  NoSuchModelError,
  type ProviderV4,
  type RerankingModelV4,
} from '@ai-sdk/provider';
import { type Check, checkMembers } from '../arguments/checkMembers.js';
import { checkFunction } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { object, text, whole } from '../arguments/memberChecks.js';
import { Engine } from '../Engine.js';
import type { EngineOptions } from '../EngineOptions.js';
import { userDataFolder } from '../files/userFolders.js';
import type { ServedEngine } from '../serve/ServeOptions.js';
import { Batches } from './Batches.js';
import { DecisionModel } from './DecisionModel.js';
import { EmbeddingModel } from './EmbeddingModel.js';
import { Engines } from './Engines.js';
import { ExtractionModel } from './ExtractionModel.js';
import { LanguageModel } from './LanguageModel.js';
import { RerankingModel } from './RerankingModel.js';

/** How a provider opens models, and where its batches are. */
export interface SpillwayProviderOptions {
  /** Options of every engine that is opened. Default: none. */
  readonly engine?: Omit<EngineOptions, 'model' | 'signal'>;
  /**
   * Opens a model by its id in the place of `Engine.open`: to give models names of one's own, or options by model. What
   * it returns is closed with the provider.
   */
  readonly open?: (modelId: string, signal: AbortSignal) => Promise<ServedEngine>;
  /** Models that are in memory at once, at most. Default: as many as fit. */
  readonly modelsInMemory?: number;
  /**
   * The folder of batches, made if need be, which one process has at a time: what is in it goes on. Default
   * `$XDG_DATA_HOME/spillway/ai-sdk`, or `~/.local/share/spillway/ai-sdk`.
   */
  readonly batches?: string;
}

/** A provider of the AI SDK, whose models are computed in this process. */
export interface SpillwayProvider extends ProviderV4, AsyncDisposable {
  /** A language model, by whatever `Engine.open` takes: a file, a folder, `hf:OWNER/REPO`, a known id. */
  (modelId: string): LanguageModelV4;
  embedding(modelId: string): EmbeddingModelV4;
  reranking(modelId: string): RerankingModelV4;
  rerankingModel(modelId: string): RerankingModelV4;
  /** How likely answers to questions are: what `Engine.classify` tells. The AI SDK may change what such models are. */
  decisionModel(modelId: string): Experimental_DecisionModelV4;
  /** Values of fields: answers that are held to a schema. The AI SDK may change what such models are. */
  extractionModel(modelId: string): Experimental_ExtractionModelV4;
  /** Batches: jobs on disk, which go on after the process has ended. The AI SDK may change what such are. */
  experimental_batch(): Experimental_BatchV4<{ readonly text: string }>;
  /** Ends all calls, stops batches, which go on later, and frees all models; later calls open them anew. Idempotent. */
  close(): Promise<void>;
}

const CHECKS: Readonly<Record<keyof SpillwayProviderOptions, Check>> = {
  engine: object,
  open: checkFunction,
  modelsInMemory: whole(1),
  batches: text('the path of a folder'),
};

/**
 * Makes a provider of the AI SDK: nothing is opened before a call asks for it.
 * @throws UsageError for an option that is unknown or of the wrong type
 */
export function createSpillway(options: SpillwayProviderOptions = {}): SpillwayProvider {
  checkMembers('options', options, CHECKS);
  const { engine = {}, modelsInMemory, batches: folder = join(userDataFolder(), 'ai-sdk') } = options;
  const open = options.open ?? ((model: string, signal: AbortSignal) => Engine.open({ ...engine, model, signal }));
  let engines: Engines | undefined;
  let batches: Batches | undefined;
  const opened = (): Engines => (engines ??= new Engines(open, modelsInMemory));
  const close = async (): Promise<void> => {
    const [had, running] = [engines, batches];
    [engines, batches] = [undefined, undefined];
    await running?.close();
    await had?.close();
  };
  const languageModel = (modelId: string): LanguageModelV4 =>
    new LanguageModel(checkId(modelId, 'languageModel'), opened);
  const embeddingModel = (modelId: string): EmbeddingModelV4 =>
    new EmbeddingModel(checkId(modelId, 'embeddingModel'), opened);
  const rerankingModel = (modelId: string): RerankingModelV4 =>
    new RerankingModel(checkId(modelId, 'rerankingModel'), opened);
  return Object.assign((modelId: string) => languageModel(modelId), {
    specificationVersion: 'v4' as const,
    languageModel,
    embeddingModel,
    embedding: embeddingModel,
    rerankingModel,
    reranking: rerankingModel,
    decisionModel: (modelId: string) => new DecisionModel(checkId(modelId, 'decisionModel'), opened),
    extractionModel: (modelId: string) => new ExtractionModel(checkId(modelId, 'languageModel'), opened),
    imageModel: (modelId: string): never => {
      throw new NoSuchModelError({ modelId, modelType: 'imageModel' });
    },
    experimental_batch: () => (batches ??= new Batches(folder, opened)),
    close,
    [Symbol.asyncDispose]: close,
  });
}

/** The provider for whoever needs no other: engines have the options that they have by themselves. */
export const spillway: SpillwayProvider = createSpillway();

type ModelType = ConstructorParameters<typeof NoSuchModelError>[0]['modelType'];

/** @throws NoSuchModelError for what can be no model's */
function checkId(modelId: unknown, modelType: ModelType): string {
  if (typeof modelId === 'string' && modelId !== '') return modelId;
  throw new NoSuchModelError({
    modelId: String(modelId),
    modelType,
    message: `model: found ${found(modelId)}, expected a file, a folder, hf:OWNER/REPO or a known id`,
  });
}
