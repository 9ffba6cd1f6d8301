import { readFileSync, writeFileSync } from 'node:fs';
import type { RunJobOptions } from '../../../src/jobs/runJob.js';
import { runJob } from '../../../src/jobs/runJob.js';
import type { JobSummary } from '../../../src/jobs/JobOptions.js';
import { temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

/** Runs jobs from one file into another, in a folder that goes with the tests. */
export function jobsOnFiles(): {
  path: (name: string) => string;
  job: (
    input: string,
    content: string | Uint8Array,
    output: string,
    options?: Partial<RunJobOptions>,
  ) => Promise<{ summary: JobSummary; text: string; path: string }>;
} {
  const path = temporaryFolder();
  let names = 0;
  return {
    path,
    async job(input, content, output, options = {}) {
      names += 1;
      const [from, to] = [path(`${names}-${input}`), path(`${names}-${output}`)];
      writeFileSync(from, content);
      const summary = await runJob({ engine: new StubEngine(), input: from, output: to, ...options });
      return { summary, text: readFileSync(to, 'utf8'), path: to };
    },
  };
}

export async function failureOf(run: Promise<unknown>): Promise<Error> {
  return run.then(
    () => {
      throw new Error('expected a failure');
    },
    (error: unknown) => error as Error,
  );
}
