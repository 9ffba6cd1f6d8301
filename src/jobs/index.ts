export { Job } from './Job.js';
export { checkJobFiles, type JobFileOptions, type JobFileState } from './jobFiles.js';
export type { JobOptions, JobSummary, RowGenerator } from './JobOptions.js';
export { formatResult } from './formatResult.js';
export { openLines, readRows, type ByteSource, type ReadRowsOptions } from './readRows.js';
export { runJob, type RunJobOptions } from './runJob.js';
export { writeRows } from './writeRows.js';
