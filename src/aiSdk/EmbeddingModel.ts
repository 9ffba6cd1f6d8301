import {
  type EmbeddingModelV4,
  type EmbeddingModelV4CallOptions,
  type EmbeddingModelV4Result,
  TooManyEmbeddingValuesForCallError,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { PROVIDER, rowErrorOf, wrongArgument } from './errors.js';
import { ProvidedModel } from './ProvidedModel.js';
import { ownOptions } from './providerOptions.js';

/** Texts of one call, as many as a request of the server may have. */
const MOST_VALUES = 2048;

/** A model that makes vectors of texts. */
export class EmbeddingModel extends ProvidedModel implements EmbeddingModelV4 {
  readonly maxEmbeddingsPerCall = MOST_VALUES;
  /** Calls join one run. */
  readonly supportsParallelCalls = true;

  async doEmbed(options: EmbeddingModelV4CallOptions): Promise<EmbeddingModelV4Result> {
    const { values, dimensions, abortSignal: signal } = options;
    const told = { ...ownOptions('embedding', options), ...(dimensions !== undefined && { dimensions }) };
    this.#check(values);
    return this.engines().with(this.modelId, { signal, prompt: values }, async (engine) => {
      if (!engine.embed)
        throw new UnsupportedFunctionalityError({
          functionality: 'embedding',
          message: `${this.modelId}: embeds nothing`,
        });
      const embeddings: number[][] = [];
      let tokens = 0;
      const rows = values.map((prompt, at) => ({ id: at, prompt }));
      for await (const { embedding, error, usage } of engine.embed(rows, { ...told, ...(signal && { signal }) })) {
        if (error) throw rowErrorOf(error, values[embeddings.length]);
        embeddings.push(Array.isArray(embedding) ? (embedding as number[]) : []);
        tokens += usage.promptTokens;
      }
      return { embeddings, usage: { tokens }, warnings: [] };
    });
  }

  #check(values: unknown): void {
    if (!Array.isArray(values))
      throw wrongArgument('values', `values: found ${found(values)}, expected an array of texts`);
    if (values.length > MOST_VALUES)
      throw new TooManyEmbeddingValuesForCallError({
        provider: PROVIDER,
        modelId: this.modelId,
        maxEmbeddingsPerCall: MOST_VALUES,
        values,
      });
    const at = values.findIndex((value) => typeof value !== 'string');
    if (at >= 0) throw wrongArgument('values', `values[${at}]: found ${found(values[at])}, expected a text`);
  }
}
