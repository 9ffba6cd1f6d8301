import type { Subject } from 'rxjs';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, RowInput } from '../../Row.js';
import { duplicateId } from '../../rows/duplicateId.js';
import { failedResult } from '../../rows/failedResult.js';
import { readableRow } from '../../rows/readableRow.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import { ActiveRow, type OrderedResult } from './ActiveRow.js';
import { IdSet } from '../../collections/IdSet.js';
import type { InFlight } from './InFlight.js';
import { prepareRow, type RowLimits } from './prepareRow.js';

export interface IntakeSetup {
  readonly options: GenerateOptions;
  readonly tokenizer: Tokenizer;
  readonly limits: RowLimits;
  /** Most tokens that one row's KV cache may hold. */
  readonly cacheTokens: number;
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  /** Emits refused rows as finished results; completes when the input has ended. */
  readonly rejected$: Subject<OrderedResult>;
}

/**
 * Turns rows of input into rows of a run, one at a time as they are pulled: checks, numbers and encodes them. A bad row goes to `rejected$` as a
 * finished result; the others are unaffected. That its id is an earlier row's is said of a row that has no other fault, and ids that nobody gave are compared
 * with none: a bad line must not cost a good row its result. Waits while too many rows are in flight.
 */
export async function* intake(rows: AsyncIterable<RowInput> | Iterable<RowInput>, setup: IntakeSetup): AsyncGenerator<ActiveRow, void, undefined> {
  const { options, tokenizer, limits, inFlight, recorder, rejected$ } = setup;
  const ids = new IdSet();
  const rules = { ignoreEos: options.ignoreEos ?? false, logprobs: options.logprobs };
  let sequence = 0;
  for await (const given of rows) {
    await inFlight.enter();
    const input = readableRow(given);
    const index = input.index ?? sequence;
    const identity = { id: input.id ?? index + 1, index, sequence, ...(input.carry && { carry: input.carry }) };
    sequence++;
    const duplicate = input.duplicate ?? (input.id !== undefined && !ids.add(input.id));
    try {
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      const prepared = recorder.timed(() => prepareRow(input, options, tokenizer, limits));
      const held = prepared.tokens.length + prepared.maxNewTokens - 1;
      if (held > setup.cacheTokens) {
        throw new RowError('memory', `the row may need ${held} tokens of KV cache, all there is is ${setup.cacheTokens}: give more memory or fewer maxNewTokens`);
      }
      if (duplicate) throw new RowError('duplicate-id', duplicateId(identity.id).message);
      yield new ActiveRow(identity, prepared, tokenizer, rules, recorder);
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      recorder.row(true);
      rejected$.next({ sequence: identity.sequence, result: failedResult(identity, { code: error.rowCode, message: error.message }, input.carry) });
    }
  }
  rejected$.complete();
}
