import type { GenerateOptions } from '../Row.js';
import { ApiError } from './http/ApiError.js';
import { overloaded } from './http/bodies.js';
import type { Exchange } from './http/Exchange.js';
import type { ModelLease, Models } from './models/Models.js';
import type { ServedModel, ServeLimits } from './ServeOptions.js';
import type { ServerMetrics } from './ServerMetrics.js';

/** Rows of requests come in before those of batches. */
export const PRIORITIES = { request: 0, batch: -1 } as const;

/** The state shared by routes that a model answers. */
export class Served {
  #open = 0;

  constructor(
    readonly models: Models,
    readonly limits: ServeLimits,
    /** The options for rows that say nothing themselves. */
    readonly defaults: GenerateOptions,
    readonly metrics: () => ServerMetrics,
  ) {}

  get openRequests(): number {
    return this.#open;
  }

  /** The model that a request names. @throws ApiError: none is fetched because somebody asks for it */
  model(name: string | undefined): ServedModel {
    const model = this.models.find(name);
    if (model) return model;
    throw name === undefined
      ? new ApiError(400, `model: found none, expected one of ${this.models.names.join(', ')}`, {
          param: 'model',
          code: 'missing_model',
        })
      : new ApiError(404, `model: found one that is not served here, expected one of ${this.models.names.join(', ')}`, {
          param: 'model',
          code: 'model_not_found',
        });
  }

  /**
   * Has a model answer, if there is room for one more request.
   * @throws ApiError with 429 where there is none; what opening the model, and the work, throw
   */
  async with(model: ServedModel, exchange: Exchange, work: (lease: ModelLease) => Promise<void>): Promise<void> {
    const { openRequests } = this.limits;
    if (this.#open >= openRequests) {
      this.metrics().overloaded.add();
      throw overloaded(`${openRequests} requests are being answered, which is as many as may be at once`);
    }
    this.#open += 1;
    exchange.limitTime();
    try {
      const lease = await this.models.lease(model, exchange.signal);
      let failure: unknown;
      try {
        await work(lease);
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        lease.release(failure);
      }
    } finally {
      this.#open -= 1;
    }
  }
}
