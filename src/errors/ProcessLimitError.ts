import { SpillwayError } from './SpillwayError.js';

/**
 * The system, or Node, lets this process have less memory than it needs, whatever its budget: `ulimit -v`, `ulimit -d`,
 * `--max-old-space-size`. The message names the limit that was found and one that works.
 */
export class ProcessLimitError extends SpillwayError {
  readonly code = 'memory-budget';
}
