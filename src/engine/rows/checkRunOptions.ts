import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { RunOptions } from './Generation.js';
import { checkSampling } from './prepareRow.js';

/** Checks the options of a run before anything is read. @throws UsageError naming the option, what was found and what was expected */
export function checkRunOptions(options: RunOptions, vocabularySize: number): void {
  try {
    checkSampling(options);
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message) : error;
  }
  const { logprobs, order, window } = options;
  if (logprobs !== undefined && !(Number.isSafeInteger(logprobs) && logprobs >= 0 && logprobs <= vocabularySize)) {
    throw new UsageError(`logprobs: found ${logprobs}, expected a whole number from 0 to ${vocabularySize}, the vocabulary`);
  }
  if (order !== undefined && !['input', 'completion'].includes(order)) {
    throw new UsageError(`order: found ${JSON.stringify(order)}, expected input or completion`);
  }
  if (window !== undefined && !(Number.isSafeInteger(window) && window >= 1)) {
    throw new UsageError(`window: found ${window}, expected a whole number of at least 1`);
  }
}
