import { shortened } from '../../arguments/found.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { Work } from '../../collections/drained.js';
import type { Row } from '../../Row.js';
import { refusalInWords } from '../../rows/responseFormat.js';
import type { FittedPrompt } from './truncate.js';
import {
  promptOf,
  toldInput,
  tokensOfText,
  type MadeOptions,
  type RowLimits,
  type TextPrompt,
} from './promptTokens.js';

/** Further attempts of a row whose answer fails its format. */
export interface Retry {
  /** So many, after the first. */
  readonly most: number;
  readonly temperature: number;
  /** All that decides their prompts beside the tokens of the first, as one text. */
  readonly source: () => string;
  /** The tokens of the next attempt's prompt. @param problem what is wrong with the answer */
  readonly prompt: (answer: string, problem: string) => Work<readonly number[]>;
}

/** Most tokens of the text that is told: rows have room for it from the beginning. */
export const TOLD_TOKENS = 2048;
/** UTF-16 units that are told, at most: of an answer, and of what is wrong with it. */
const ANSWER_UNITS = 1000;
const PROBLEM_UNITS = 500;

/**
 * The prompts of further attempts: the row's own, and where that is text, what came of the attempt before. It stays as
 * it is where it was cut to its length already, where there is no room, and where the chat template refuses what is
 * told.
 */
export function retryPrompts(
  { tokens, truncated, maxNewTokens }: FittedPrompt & { readonly maxNewTokens: number },
  row: Row,
  options: MadeOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): Pick<Retry, 'source' | 'prompt'> {
  const prompt = promptOf(row, options, tokenizer, limits);
  if ('tokens' in prompt || truncated !== undefined)
    return {
      source: () => '',
      *prompt() {
        return tokens;
      },
    };
  const input = 'messages' in prompt ? toldInput(row, options) : {};
  const most = Math.min(tokens.length + TOLD_TOKENS, limits.contextTokens - maxNewTokens + 1);
  return {
    source: () => JSON.stringify([prompt, input.tools, input.templateArgs, options.escapeSpecialTokens === true]),
    *prompt(answer, problem) {
      try {
        const told = withRefusal(prompt, cut(answer), shortened(problem, PROBLEM_UNITS));
        const made = yield* tokensOfText(told, () => input, options, tokenizer, limits);
        return made.count <= most ? made.tokens : tokens;
      } catch (error) {
        if (error instanceof RowError) return tokens;
        throw error;
      }
    },
  };
}

/** As a conversation goes on; raw text is told before it, as it is told its format. */
function withRefusal(prompt: TextPrompt, answer: string, problem: string): TextPrompt {
  const refusal = refusalInWords(problem);
  if ('text' in prompt) return { text: `An earlier answer:\n${answer}\n\n${refusal}\n\n${prompt.text}` };
  return {
    messages: [...prompt.messages, { role: 'assistant', content: answer }, { role: 'user', content: refusal }],
  };
}

/** The beginning of a long answer, which ends between two characters. */
function cut(answer: string): string {
  if (answer.length <= ANSWER_UNITS) return answer;
  const end = (answer.codePointAt(ANSWER_UNITS - 1) ?? 0) > 0xff_ff ? ANSWER_UNITS - 1 : ANSWER_UNITS;
  return `${answer.slice(0, end)}…`;
}
