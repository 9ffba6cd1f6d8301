/** The subject of a failure; stable, for programs. Each code has one error class. */
export type ErrorCode =
  | 'usage' // an option or argument is wrong; nothing was read or written
  | 'model-file' // a model file cannot be used: missing, truncated, corrupt, unsupported
  | 'memory-budget' // the plan cannot fit the memory that was given
  | 'response-format' // a schema, regular expression or grammar that answers cannot be held to
  | 'row' // one row is bad; the others are unaffected
  | 'job-file' // an input or output file of a job failed: disk full, read error, a torn or foreign output
  | 'queue' // a queue of work cannot be reached, or holds something else than a job
  | 'database' // the database that results go to is away, full, or has no place for them
  | 'native' // the native addon is missing or refused a call
  | 'task' // a task of a run failed on its device
  | 'peer' // the engine of the layers before or after failed, went away, or sent what does not fit
  | 'schedule' // a schedule or a composition of stages breaks a constraint
  | 'interrupted'; // the caller's AbortSignal fired, or the engine was closed

/**
 * The base of every error that Spillway throws on purpose. The message names what was found, what was expected and,
 * where there is one, the remedy.
 */
export abstract class SpillwayError extends Error {
  abstract readonly code: ErrorCode;
  override get name(): string {
    return this.constructor.name;
  }
}
