import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { FileStore } from '../files/FileStore.js';
import type { Models } from '../models/Models.js';
import { PRIORITIES } from '../Served.js';
import type { ServeLimits } from '../ServeOptions.js';
import type { ServerMetrics } from '../ServerMetrics.js';
import { answerBatch, type BatchJob } from './answerBatch.js';
import { type BatchEnding, isOver, type KeptBatch, now } from './Batch.js';
import type { BatchStore } from './BatchStore.js';
import { finishBatch } from './finishBatch.js';
import { refusing } from './refusing.js';
import { validateBatch } from './validateBatch.js';

const EXPIRY_MILLISECONDS = 1000;
/** After failures of the machine's, which may pass; then the batch waits for the next start. */
const RETRY_SECONDS = [1, 5, 30];

/** Parts that batches need of whoever answers them. */
export interface BatchParts {
  readonly models: Models;
  readonly limits: Pick<ServeLimits, 'openBatches' | 'batchRows'>;
  readonly metrics: () => Pick<ServerMetrics, 'rowAnswered'>;
}

/** Answers batches, the oldest first, some at once: from the disk to the disk, so that whatever happens they go on. */
export class BatchRunner {
  readonly #running = new Map<string, { readonly ending: AbortController; readonly over: Promise<void> }>();
  /** Batches that cannot be gone on with by this server as it was started. */
  readonly #put = new Set<string>();
  readonly #expiry: NodeJS.Timeout;
  #stopping = false;

  constructor(
    private readonly batches: BatchStore,
    private readonly files: FileStore,
    private readonly served: BatchParts,
    private readonly say: (message: string) => void,
  ) {
    this.#expiry = setInterval(() => {
      for (const kept of batches.open())
        if (kept.ending === undefined && kept.batch.expires_at <= now()) void this.#end(kept.batch.id, 'expired');
    }, EXPIRY_MILLISECONDS);
    this.#expiry.unref();
  }

  /** Begins what waits, as far as there is room. */
  wake(): void {
    for (const { batch } of this.batches.open()) {
      if (this.#stopping || this.#running.size >= this.served.limits.openBatches) return;
      if (this.#running.has(batch.id) || this.#put.has(batch.id)) continue;
      const ending = new AbortController();
      const over = this.#run(batch.id, ending.signal).finally(() => {
        this.#running.delete(batch.id);
        this.wake();
      });
      this.#running.set(batch.id, { ending, over });
    }
  }

  /** Ends a batch before it is done: what was answered by then stays. */
  async cancel(id: string): Promise<KeptBatch> {
    await this.#end(id, 'cancelled');
    return this.batches.get(id);
  }

  /** Stops all batches, to go on with the next server. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#expiry);
    const running = [...this.#running.values()];
    for (const { ending } of running) ending.abort();
    await Promise.all(running.map(({ over }) => over));
  }

  async #end(id: string, ending: BatchEnding): Promise<void> {
    const cancelled = ending === 'cancelled' ? ({ status: 'cancelling', cancelling_at: now() } as const) : {};
    await this.#change(id, { ending, batch: cancelled });
    this.#put.delete(id);
    this.#running.get(id)?.ending.abort();
    this.wake();
  }

  /** Takes a batch as far as it gets. Never rejects. */
  async #run(id: string, signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !this.#stopping; attempt += 1) {
      try {
        while (!isOver(this.batches.get(id).batch)) await this.#step(id, signal);
        return;
      } catch (error) {
        if (this.#stopping) return;
        const wait = RETRY_SECONDS[attempt];
        // Ended by whoever cancelled it: the rest is done below another signal, in a run of its own.
        if (error instanceof InterruptedError) return;
        if (wait === undefined || error instanceof UsageError) {
          this.#put.add(id);
          this.say(`batch ${id} waits for the next start of the server: ${wordsOf(error)}`);
          return;
        }
        this.say(`batch ${id} is tried again in ${wait} s: ${wordsOf(error)}`);
        await sleep(wait * 1000, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** Does the next thing. @throws what it throws; the batch is then where it was */
  async #step(id: string, signal: AbortSignal): Promise<void> {
    const { batch, ending, answeredBy } = this.batches.get(id);
    if (ending !== undefined) {
      const after = ending === 'completed' ? undefined : refusing(ending, answeredBy?.resultIdentity);
      // Nobody ends it a second time: only the server does, by the end of the process.
      if (after) await answerBatch(this.#jobOf(id, answeredBy), after, new AbortController().signal, () => undefined);
      await this.#change(id, await finishBatch(this.batches.get(id), ending, this.batches, this.files));
      await this.batches.clear(id);
    } else if (batch.status === 'validating') {
      const path = this.batches.pathOf(id, 'input.jsonl');
      const { models, limits } = this.served;
      const found = await validateBatch(path, batch.endpoint, models, { mostRows: limits.batchRows, signal });
      if (this.batches.get(id).ending !== undefined) return;
      if (found.problems) {
        const errors = { object: 'list', data: found.problems } as const;
        await this.#change(id, { batch: { status: 'failed', failed_at: now(), errors } });
        await this.batches.clear(id);
      } else {
        const counts = { total: found.rows, completed: 0, failed: 0 };
        await this.#change(id, {
          batch: { status: 'in_progress', in_progress_at: now(), model: found.model.name, request_counts: counts },
        });
      }
    } else await this.#answer(id, signal);
  }

  async #answer(id: string, signal: AbortSignal): Promise<void> {
    const { models, metrics } = this.served;
    const { batch, answeredBy } = this.batches.get(id);
    const model = models.find(batch.model ?? undefined);
    if (!model) throw new UsageError(`found no model ${batch.model ?? ''}, expected it among those that are served`);
    const lease = await models.lease(model, signal, true);
    let failure: unknown;
    try {
      const { engine } = lease;
      if (!answeredBy)
        await this.#change(id, {
          answeredBy: { modelFiles: engine.source?.files ?? [], resultIdentity: engine.resultIdentity ?? {} },
        });
      const generator = {
        ...(engine.resultIdentity && { resultIdentity: engine.resultIdentity }),
        generate: (rows, options) => engine.generate(rows, { ...options, priority: PRIORITIES.batch }),
        ...(engine.embed && {
          embed: (rows, options) => engine.embed?.(rows, { ...options, priority: PRIORITIES.batch }),
        }),
      } as Parameters<typeof answerBatch>[1];
      const own = this.#jobOf(id, {
        modelFiles: engine.source?.files ?? [],
        resultIdentity: engine.resultIdentity ?? {},
      });
      await answerBatch(own, generator, eitherOf(signal, lease.yielding), (result, counts) => {
        this.batches.count(id, counts);
        if (result) metrics().rowAnswered('batch', result);
      });
      if (this.batches.get(id).ending === undefined)
        await this.#change(id, { ending: 'completed', batch: { status: 'finalizing', finalizing_at: now() } });
    } catch (error) {
      failure = error;
      // Another model needs the place: the batch asks for its own again.
      if (lease.yielding.aborted && !signal.aborted && error instanceof InterruptedError) return;
      throw error;
    } finally {
      lease.release(failure);
    }
  }

  #jobOf(id: string, answeredBy: KeptBatch['answeredBy']): BatchJob {
    const { batch, told } = this.batches.get(id);
    return {
      endpoint: batch.endpoint,
      told,
      counts: batch.request_counts,
      input: this.batches.pathOf(id, 'input.jsonl'),
      output: this.batches.pathOf(id, 'output.jsonl'),
      errors: this.batches.pathOf(id, 'errors.jsonl'),
      ...answeredBy,
    };
  }

  async #change(
    id: string,
    { batch, ...more }: Partial<Omit<KeptBatch, 'batch'>> & { readonly batch?: Partial<KeptBatch['batch']> },
  ): Promise<void> {
    const before = this.batches.get(id);
    await this.batches.keep({ ...before, ...more, batch: { ...before.batch, ...batch } });
  }
}

/** Not `AbortSignal.any`: Node 20 keeps each of its signals as long as those that it stands for. */
function eitherOf(...signals: readonly AbortSignal[]): AbortSignal {
  const either = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) either.abort(signal.reason);
    else signal.addEventListener('abort', () => either.abort(signal.reason), { signal: either.signal });
  }
  return either.signal;
}

function wordsOf(error: unknown): string {
  return error instanceof SpillwayError
    ? error.message
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
}
