import type { KeptAnswer, RowResult } from '../../Row.js';

/** An answer with what it took. */
export type Answer = KeptAnswer & Pick<RowResult, 'usage'>;

export interface AnswerBounds {
  readonly rows: number;
  readonly bytes: number;
}

/** What an answer takes beside its text and tokens, and what a log-probability takes. */
const ANSWER_BYTES = 512;
const LOGPROB_BYTES = 64;

/** The last answers of a run, so that of equal rows one is computed however soon it was. What was asked for longest ago goes first. */
export class RecentAnswers {
  /** In order of use. */
  private readonly answers = new Map<string, Answer>();
  private bytes = 0;

  /** @param bounds how many are kept, and what they may take, as far as that can be estimated */
  constructor(private readonly bounds: AnswerBounds) {}

  get(key: string): Answer | undefined {
    const answer = this.answers.get(key);
    if (!answer) return undefined;
    this.answers.delete(key);
    this.answers.set(key, answer);
    return answer;
  }

  /** @param answer is kept as it is: nobody else may have it */
  put(key: string, answer: Answer): void {
    const before = this.answers.get(key);
    if (before) this.drop(key, before);
    this.answers.set(key, answer);
    this.bytes += bytesOf(answer);
    for (const [oldest, least] of this.answers) {
      if (this.answers.size <= this.bounds.rows && this.bytes <= this.bounds.bytes) return;
      this.drop(oldest, least);
    }
  }

  private drop(key: string, answer: Answer): void {
    this.answers.delete(key);
    this.bytes -= bytesOf(answer);
  }
}

function bytesOf({ text, reasoning = '', tokens, logprobs = [] }: Answer): number {
  return ANSWER_BYTES + 2 * (text.length + reasoning.length) + 8 * tokens.length + LOGPROB_BYTES * logprobs.reduce((sum, { top }) => sum + 1 + top.length, 0);
}
