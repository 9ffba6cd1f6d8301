import type { ModelLease } from '../serve/models/Models.js';
import { Models } from '../serve/models/Models.js';
import type { ServedEngine } from '../serve/ServeOptions.js';
import { callErrorOf } from './errors.js';

/** A call that a model answers. */
export interface Asked {
  readonly signal?: AbortSignal | undefined;
  /** Errors may show it. */
  readonly prompt: unknown;
}

/**
 * The engines of a provider: each is opened when a call first asks for it, and shared by all; one that has no room
 * beside others takes the place of the one that was not used for the longest.
 */
export class Engines {
  readonly models: Models;

  /** @param most in memory at once, at most */
  constructor(open: (modelId: string, signal: AbortSignal) => Promise<ServedEngine>, most?: number) {
    this.models = new Models([], most, (name) => ({ name, open: (signal) => open(name, signal) }));
  }

  /** Has a model answer. @throws what opening the model, and the work, throw, as the AI SDK has such */
  async with<Result>(modelId: string, asked: Asked, work: (engine: ServedEngine) => Promise<Result>): Promise<Result> {
    const lease = await this.hold(modelId, asked);
    let failure: unknown;
    try {
      return await work(lease.engine);
    } catch (error) {
      failure = error;
      throw callErrorOf(error, asked.prompt, asked.signal);
    } finally {
      lease.release(failure);
    }
  }

  /** The same, for work that goes on after the call. */
  async hold(modelId: string, { signal, prompt }: Asked): Promise<ModelLease> {
    try {
      const model = this.models.find(modelId);
      if (!model) throw new RangeError(`no model ${modelId}`);
      return await this.models.lease(model, signal ?? new AbortController().signal);
    } catch (error) {
      throw callErrorOf(error, prompt, signal);
    }
  }

  close(): Promise<void> {
    return this.models.close();
  }
}
