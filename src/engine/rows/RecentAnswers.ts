import { heapBytes } from './answerData.js';

export interface AnswerBounds {
  readonly rows: number;
  readonly bytes: number;
}

/** What an answer takes beside what is in it. */
const ANSWER_BYTES = 512;

/**
 * The last answers of a run, so that of equal rows one is computed however soon it was. What was asked for longest ago
 * goes first.
 */
export class RecentAnswers<Answer> {
  /** In order of use. */
  private readonly answers = new Map<string, { readonly answer: Answer; readonly bytes: number }>();
  private bytes = 0;

  /** @param bounds how many are kept, and what they may take, as far as that can be estimated */
  constructor(private readonly bounds: AnswerBounds) {}

  get(key: string): Answer | undefined {
    const kept = this.answers.get(key);
    if (!kept) return undefined;
    this.answers.delete(key);
    this.answers.set(key, kept);
    return kept.answer;
  }

  /** @param answer is kept as it is: nobody else may have it */
  put(key: string, answer: Answer): void {
    this.drop(key);
    const bytes = ANSWER_BYTES + heapBytes(answer);
    this.answers.set(key, { answer, bytes });
    this.bytes += bytes;
    for (const oldest of this.answers.keys()) {
      if (this.answers.size <= this.bounds.rows && this.bytes <= this.bounds.bytes) return;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    this.bytes -= this.answers.get(key)?.bytes ?? 0;
    this.answers.delete(key);
  }
}
