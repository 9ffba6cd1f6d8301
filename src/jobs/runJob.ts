import { checkObject } from '../arguments/checkMembers.js';
import { checkRowGenerator } from './checkJobOptions.js';
import type { JobOptions, JobSummary, RowGenerator } from './JobOptions.js';
import { Job } from './Job.js';

export interface RunJobOptions extends JobOptions {
  /** An `Engine`, or whatever generates rows as one does. */
  readonly engine: RowGenerator & { readonly source?: { readonly files: readonly string[] } };
}

/**
 * Runs a whole job: rows of a file or stream through an engine into a file or stream. Run again with `resume: true`
 * after a crash, a kill or an interrupt, it goes on, and each row ends up in the output exactly once.
 * @throws UsageError, JobFileError, InterruptedError and whatever the engine throws; finished rows are written and
 * intact
 * @example
 * await runJob({ engine, input: 'prompts.jsonl', output: 'answers.jsonl', resume: true, generate: { maxNewTokens: 64 }
 * });
 */
export async function runJob(options: RunJobOptions): Promise<JobSummary> {
  checkObject('options', options);
  const { engine, ...jobOptions } = options;
  checkRowGenerator(engine);
  const { source, resultIdentity, models } = engine;
  const job = await Job.open({
    ...(source && { modelFiles: source.files }),
    ...(resultIdentity && { resultIdentity }),
    ...(models && { cascade: true }),
    ...jobOptions,
  });
  let summary: JobSummary;
  try {
    summary = await job.run(engine);
  } catch (error) {
    // The run's error is the cause; one of closing after it would only hide it.
    await job.close().catch(() => undefined);
    throw error;
  }
  await job.close();
  return summary;
}
