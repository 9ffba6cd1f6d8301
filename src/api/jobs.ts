// `spillway/jobs`: files, tables and queries in, results out, each row exactly once.
import '../requireNode.js';

export { bundledSchema } from '../schema/bundledSchema.js';
export { checkResponseFormat } from '../engine/grammar/checkResponseFormat.js';
export { EnforcedSchema } from '../schema/EnforcedSchema.js';
export { runJob, type RunJobOptions } from '../jobs/runJob.js';
export { Job } from '../jobs/Job.js';
export { checkJobOptions, JOB_OPTIONS } from '../jobs/checkJobOptions.js';
export { type FileFormat, type InputFile, type JobFormats, jobFormats } from '../jobs/jobFormats.js';
export { type JobOutputPaths, jobOutputFiles } from '../jobs/output/sidecarFiles.js';
export { type BadRowReport, dryRun, type DryRunOptions, type DryRunReport, type RowPlace } from '../dryRun.js';
export { estimateRows, type EstimateRowsOptions } from '../estimateRows.js';
export type { NamedFile } from '../files/realPath.js';
export { checkJobFiles, type JobFileOptions, type JobFileState } from '../jobs/jobFiles.js';
export { DATABASE_WAIT, type DatabaseOutput, databasePlace, databaseTable } from '../jobs/database/DatabaseOutput.js';
export type { JobOptions, JobSummary, RowGenerator } from '../jobs/JobOptions.js';
export { collectJob, type CollectJobOptions, type CollectSummary } from '../jobs/shards/collectJob.js';
export type { Calibration, TruthReport } from '../jobs/TruthReport.js';
export type { RowSample, SubsetOptions } from '../jobs/RowSubset.js';
export { type Shard, shardPath } from '../jobs/shards/Shard.js';
export { shardOfEnvironment } from '../jobs/shards/shardOfEnvironment.js';
export { submitJob, type SubmitJobOptions } from '../jobs/work/submitJob.js';
export { runWork, type RunWorkOptions, type ShardEvent, type WorkSummary } from '../jobs/work/runWork.js';
export { jobStatus, type JobStatus } from '../jobs/work/jobStatus.js';
export { openWorkSource } from '../jobs/work/openWorkSource.js';
export { memoryWork } from '../jobs/work/memoryWork.js';
export { type JobManifest, parseManifest, type QueuedOptions } from '../jobs/work/JobManifest.js';
export type { Lease, LeaseOptions, ShardProgress, ShardState, WorkSource } from '../jobs/work/WorkSource.js';
export type { FormatName } from '../jobs/formats/rowFormats.js';
export type { InputFingerprint, FileFingerprint, RowsRead } from '../jobs/record/fingerprint.js';
export type { JobIdentity } from '../jobs/record/jobRecord.js';
export type { JobTaskName } from '../Results.js';
export { readRows, openLines, type ByteSource, type ReadRowsOptions } from '../jobs/input/readRows.js';
export { isPostgres } from '../jobs/database/postgresUrl.js';
export { DUCKDB_BYTES } from '../jobs/input/duckDbLimit.js';
export { readSql, type ReadSqlOptions } from '../jobs/input/readSql.js';
export { readRecordBatches, type ReadRecordBatchesOptions } from '../jobs/arrow/readRecordBatches.js';
export { recordBatches, type ArrowLibrary, type RecordBatchesOptions } from '../jobs/arrow/recordBatches.js';
export type { ArrowBatch } from '../jobs/arrow/ArrowBatch.js';
export { checkJobInput } from '../jobs/input/JobInput.js';
export { peekRows } from '../jobs/input/peekRows.js';
export { checkUnmatched, type InputPaths } from '../jobs/input/inputFiles.js';
export { encodeResults, type EncodeResultsOptions } from '../jobs/output/encodeResults.js';
export type { ResultTableOptions } from '../jobs/output/resultsAlone.js';
export { writeRows } from '../jobs/output/writeRows.js';
export { parseRow } from '../jobs/formats/parseRow.js';
export { formatResult } from '../jobs/formats/formatResult.js';
export type {
  FinishedRow,
  ReadOptions,
  RowFormat,
  RowSource as FormatSource,
  TakenColumns,
  WriteOptions,
} from '../jobs/formats/RowFormat.js';
export type { FormatChoice } from '../jobs/formats/rowFormats.js';
export type { CsvDialect, Table, ColumnKind } from '../jobs/formats/Table.js';
export type { Column as ParquetColumn, Leaf as ParquetLeaf } from '../jobs/formats/parquet/schema.js';
export type { MaxErrors } from '../jobs/ErrorLimit.js';
