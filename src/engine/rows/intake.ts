import type { Subject } from 'rxjs';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, RowFailure, RowInput, RowResult } from '../../Row.js';
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
 * finished result; the others are unaffected. Waits while too many rows are in flight.
 */
export async function* intake(rows: AsyncIterable<RowInput> | Iterable<RowInput>, setup: IntakeSetup): AsyncGenerator<ActiveRow, void, undefined> {
  const { options, tokenizer, limits, inFlight, recorder, rejected$ } = setup;
  const ids = new IdSet();
  const rules = { ignoreEos: options.ignoreEos ?? false, logprobs: options.logprobs };
  let sequence = 0;
  for await (const given of rows) {
    await inFlight.enter();
    const input = isObject(given) ? given : { error: { code: 'invalid-row' as const, message: `found ${typeof given}, expected a row object` } };
    const index = input.index ?? sequence;
    const identity = { id: idOf(input, index), index, sequence, ...(input.carry && { carry: input.carry }) };
    sequence++;
    try {
      if (!ids.add(identity.id)) throw new RowError('duplicate-id', `an earlier row has the id ${JSON.stringify(identity.id)}`);
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      if (input.id !== undefined && !isId(input.id)) throw new RowError('invalid-row', 'id: expected a string or a finite number');
      const prepared = recorder.timed(() => prepareRow(input, options, tokenizer, limits));
      const held = prepared.tokens.length + prepared.maxNewTokens - 1;
      if (held > setup.cacheTokens) {
        throw new RowError('memory', `the row may need ${held} tokens of KV cache, all there is is ${setup.cacheTokens}: give more memory or fewer maxNewTokens`);
      }
      yield new ActiveRow(identity, prepared, tokenizer, rules, recorder);
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      recorder.row(true);
      rejected$.next({ sequence: identity.sequence, result: failed(identity, { code: error.rowCode, message: error.message }) });
    }
  }
  rejected$.complete();
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isId(id: unknown): id is string | number {
  return typeof id === 'string' || (typeof id === 'number' && Number.isFinite(id));
}

/** The row's own id where it is one, else its number in the input from 1. */
function idOf({ id }: RowInput, index: number): string | number {
  return isId(id) ? id : index + 1;
}

function failed({ id, index, carry }: { id: string | number; index: number; carry?: Readonly<Record<string, unknown>> }, error: RowFailure): RowResult {
  return {
    id, index, text: '', tokens: [], finishReason: 'error', usage: { promptTokens: 0, completionTokens: 0 }, error, ...(carry && { row: carry }),
  };
}
