import type { AnswerStore, KeptAnswer } from '../KeptAnswer.js';

/**
 * Answers to the rows from which thresholds are learnt, in memory, so that the run after that does not compute them
 * again: `reuse` of both.
 */
export class KeptSample implements AnswerStore {
  private readonly answers = new Map<string, KeptAnswer>();
  private whole = false;

  /** @param lasting answers that last, which are asked, too, and get all that are computed */
  constructor(private readonly lasting?: AnswerStore) {}

  /** From here on no more answers are kept in memory: the sample is answered. */
  seal(): void {
    this.whole = true;
  }

  get(key: string): Promise<KeptAnswer | undefined> | KeptAnswer | undefined {
    return this.answers.get(key) ?? this.lasting?.get(key);
  }

  put(key: string, answer: KeptAnswer): void | Promise<void> {
    if (!this.whole) this.answers.set(key, answer);
    return this.lasting?.put(key, answer);
  }
}
