import type { Work } from '../../collections/drained.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row } from '../../Row.js';
import { mergeFields, mergeTemplate } from '../../rows/chunks.js';
import { readMessages } from '../../rows/messages.js';
import { filledTemplate } from '../../rows/promptTemplate.js';
import { readable } from '../../rows/readableRow.js';
import { promptField } from '../../rows/rowFields.js';
import { withoutText } from './partedRow.js';
import { keptForAnswer, setting } from './prepareRow.js';
import { fieldsOf, isInstruction, promptTokens, type RowLimits } from './promptTokens.js';
import { tokensWithin } from './textPlaces.js';

/** How answers of a row's parts become fewer. */
export interface MergePrompts {
  /** The row that asks for one of several answers. */
  row(answers: readonly string[]): Row;
  /**
   * How many answers, in their order, are merged together: as many as the model's context has room for.
   * @throws RowError where it has none for two
   */
  groups(answers: readonly string[]): Work<readonly number[]>;
}

/** Tokens of what stands between two answers, at most. */
const BETWEEN_TOKENS = 4;

/**
 * @param options of the run, without a template
 * @throws RowError for a prompt that asks for a field that the row does not have
 */
export function mergePrompts(
  row: Row,
  { merge, isTemplated }: { readonly merge: string; readonly isTemplated: boolean },
  options: GenerateOptions,
  { tokenizer, limits }: { readonly tokenizer: Tokenizer; readonly limits: RowLimits },
): MergePrompts {
  const template = mergeTemplate(merge);
  const settings = withoutText(row);
  const instructions =
    !isTemplated && promptField(row) === 'messages'
      ? readable(() => readMessages(row.messages)).filter(isInstruction)
      : undefined;
  const rowOf = (answers: readonly string[]): Row => {
    const text = filledTemplate(template, mergeFields(fieldsOf(row), answers));
    return instructions
      ? { ...settings, messages: [...instructions, { role: 'user', content: text }] }
      : { ...settings, prompt: text };
  };
  rowOf([]);
  const lengthOf = function* (answers: readonly string[]): Work<number> {
    return (yield* promptTokens(rowOf(answers), options, tokenizer, limits)).count;
  };
  return {
    row: rowOf,
    *groups(answers) {
      const { contextTokens } = limits;
      const room = contextTokens - keptForAnswer(setting('maxNewTokens', row, options), contextTokens) + 1;
      const lengths: number[] = [];
      for (const answer of answers)
        lengths.push((yield* tokensWithin(answer, tokenizer, true)).length + BETWEEN_TOKENS);
      const alone = yield* lengthOf(['']);
      const groups: number[] = [];
      for (let from = 0; from < answers.length;) {
        let size = 0;
        for (let tokens = alone; from + size < answers.length; size++) {
          tokens += lengths[from + size] ?? 0;
          if (tokens > room && size > 1) break;
        }
        // Two are tried, whatever was estimated.
        while (size > 1 && (yield* lengthOf(answers.slice(from, from + size))) > room) size--;
        groups.push(Math.max(1, size));
        from += Math.max(1, size);
      }
      if (groups.length < answers.length) return groups;
      throw new RowError(
        'too-long',
        `merging answers: two of them with the merge's prompt have ${yield* lengthOf(answers.slice(0, 2))} tokens, expected at most ${room}, with room for the answer: fewer maxNewTokens, or a shorter prompt`,
      );
    },
  };
}
