import type { JobTaskName } from '../Results.js';
import { ATTRIBUTES, SPAN_NAMES } from '../telemetry/names.js';
import { inSpan } from '../telemetry/spans.js';
import type { JobSummary } from './JobOptions.js';

/** A job's run as a span, where somebody traces. */
export function tracedJob(task: JobTaskName, run: () => Promise<JobSummary>): Promise<JobSummary> {
  return inSpan(
    () => SPAN_NAMES.job,
    () => ({ [ATTRIBUTES.task]: task }),
    run,
    ({ rows, done, failed, kept }) => ({
      [ATTRIBUTES.rows]: rows,
      [ATTRIBUTES.rowsDone]: done,
      [ATTRIBUTES.rowsFailed]: failed,
      [ATTRIBUTES.rowsKept]: kept,
    }),
  );
}
