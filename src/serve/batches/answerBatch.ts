import { Job } from '../../jobs/Job.js';
import { EMBEDDINGS } from '../../jobs/formats/openaiRequest.js';
import type { RowGenerator } from '../../jobs/JobOptions.js';
import type { AnyResult } from '../../Results.js';
import type { GenerateOptions } from '../../Row.js';
import type { Batch } from './Batch.js';

/** A batch as a job. */
export interface BatchJob {
  readonly endpoint: string;
  readonly told: GenerateOptions;
  /** Counts of what was through when it was last looked at. */
  readonly counts: Batch['request_counts'];
  readonly input: string;
  readonly output: string;
  readonly errors: string;
  readonly modelFiles?: readonly string[];
  readonly resultIdentity?: object;
}

type OnCount = (result: AnyResult | undefined, counts: Batch['request_counts']) => void;

/**
 * Answers what is not answered yet of a batch, and writes its files when all is.
 * @param onCount called with each result, and how many requests are through
 * @throws as `runJob`: what was finished is written, and goes on
 */
export async function answerBatch(
  { endpoint, told, counts, input, output, errors, modelFiles = [], resultIdentity = {} }: BatchJob,
  generator: RowGenerator,
  signal: AbortSignal,
  onCount: OnCount,
): Promise<void> {
  const { escapeSpecialTokens, truncate } = told;
  const task =
    endpoint === EMBEDDINGS
      ? {
          embed: {
            ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
            ...(truncate !== undefined && { truncate }),
            signal,
          },
        }
      : { generate: { ...told, signal } };
  await using job = await Job.open({
    input,
    inputFormat: 'openai-batch',
    output,
    outputFormat: 'openai-batch',
    errors,
    resume: true,
    ...(modelFiles.length > 0 && { modelFiles }),
    resultIdentity,
    ...task,
  });
  const kept = job.keptRows;
  const before = Math.min(counts.failed, kept);
  const counter = new Counter(counts.total, kept - before, before, onCount);
  onCount(undefined, counter.counts);
  await job.run({
    ...generator,
    generate: (rows, options) => counter.counted(generator.generate(rows, options)),
    ...(generator.embed && { embed: (rows, options) => counter.counted(generator.embed?.(rows, options) ?? none()) }),
  });
}

/** Counts requests by their results, of which one may have several. */
class Counter {
  #last = -1;

  constructor(
    private readonly total: number,
    private completed: number,
    private failed: number,
    private readonly tell: OnCount,
  ) {}

  get counts(): Batch['request_counts'] {
    return {
      total: this.total,
      completed: Math.min(this.completed, this.total),
      failed: Math.min(this.failed, this.total),
    };
  }

  async *counted<Result extends AnyResult>(results: AsyncIterable<Result>): AsyncGenerator<Result, void, undefined> {
    for await (const result of results) {
      if (result.index !== this.#last) {
        if (result.error) this.failed += 1;
        else this.completed += 1;
      }
      this.#last = result.index;
      this.tell(result, this.counts);
      yield result;
    }
  }
}

async function* none(): AsyncGenerator<never, void, undefined> {
  // An engine that embeds nothing.
}
