import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, RowInput } from '../../Row.js';
import { duplicateId } from '../../rows/duplicateId.js';
import { failedResult } from '../../rows/failedResult.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import { acceptedRows } from './acceptedRows.js';
import { ActiveRow } from './ActiveRow.js';
import type { InFlight } from './InFlight.js';
import { prepareRow } from './prepareRow.js';
import type { RowLimits } from './promptTokens.js';
import { rowKey } from './rowKey.js';
import type { SharedAnswers } from './SharedAnswers.js';

export interface IntakeSetup {
  readonly options: GenerateOptions;
  readonly tokenizer: Tokenizer;
  readonly limits: RowLimits;
  /** Most tokens that one row's KV cache may hold. */
  readonly cacheTokens: number;
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  /** Gets the rows that need no computing. */
  readonly answers: SharedAnswers;
  /** The engine's, as one word: answers are kept under it. */
  readonly resultIdentity: string;
}

/**
 * Turns rows of input into rows of a run, one at a time as they are pulled: checks, numbers and encodes them. A bad row goes to `answers` as a
 * finished result, and so does one that is equal to another of this run, or of an earlier one; the others are unaffected. That its id is an earlier row's is said of a row that has no other fault.
 */
export async function* intake(rows: AsyncIterable<RowInput> | Iterable<RowInput>, setup: IntakeSetup): AsyncGenerator<ActiveRow, void, undefined> {
  const { options, tokenizer, limits, inFlight, recorder, answers } = setup;
  const rules = { ignoreEos: options.ignoreEos ?? false, logprobs: options.logprobs, reasoning: options.reasoning, timeout: options.rowTimeout };
  /** Of the results. */
  let sequence = 0;
  for await (const { input, identity, duplicate } of acceptedRows(rows, setup)) {
    try {
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      const prepared = recorder.timed(() => prepareRow(input, options, tokenizer, limits));
      const held = prepared.tokens.length + prepared.maxNewTokens - 1;
      if (held > setup.cacheTokens) {
        throw new RowError('memory', `the row may need ${held} tokens of KV cache, all there is is ${setup.cacheTokens}: give more memory or fewer maxNewTokens`);
      }
      if (duplicate) throw new RowError('duplicate-id', duplicateId(identity.id).message);
      for (const [nth, sample] of (prepared.samples ?? [undefined]).entries()) {
        if (nth > 0) await inFlight.enter(input.carry);
        const row = { ...identity, sequence: sequence++, ...(sample !== undefined && { sample }) };
        const own = sample === undefined ? prepared : { ...prepared, seed: (prepared.seed + sample) >>> 0 };
        const key = answers.needsKeys ? recorder.timed(() => rowKey(own, rules, setup.resultIdentity)) : undefined;
        if (key === undefined) yield new ActiveRow(row, own, tokenizer, rules, recorder);
        else if (!(await answers.has(key, row, own.tokens.length))) {
          yield new ActiveRow(row, own, tokenizer, rules, recorder, (result) => {
            answers.answered(key, result);
          });
        }
      }
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      recorder.row(true);
      answers.refused({ sequence: sequence++, result: failedResult(identity, { code: error.rowCode, message: error.message }, input.carry) });
    }
  }
  answers.inputOver();
}
