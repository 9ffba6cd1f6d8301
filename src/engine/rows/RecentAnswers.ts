export interface AnswerBounds {
  readonly rows: number;
  readonly bytes: number;
}

/** Bytes that an answer takes beside its contents. */
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

/** Bytes that a number and that a list or an object takes, about; the rest is in strings. */
const NUMBER_BYTES = 8;
const CONTAINER_BYTES = 40;

/** A copy of an answer, which is plain data of our own making: whoever gets it may do with it as they like. */
export function copyOf<T>(data: T): T;
export function copyOf(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data;
  if (Array.isArray(data)) {
    // Lists of numbers, which embeddings are, are copied in one.
    const list: unknown[] = data.slice();
    for (let at = 0; at < list.length; at++) if (typeof list[at] === 'object') list[at] = copyOf(list[at]);
    return list;
  }
  // Its own members first, by no assignment: a label may be called __proto__. Log-probabilities are many small objects.
  const copy: Record<string, unknown> = { ...data };
  for (const [name, each] of Object.entries(copy))
    if (typeof each === 'object' && each !== null) copy[name] = copyOf<unknown>(each);
  return copy;
}

/** Estimates the bytes that data takes in memory, about. */
export function heapBytes(data: unknown): number {
  if (typeof data === 'string') return 2 * data.length;
  if (typeof data !== 'object' || data === null) return NUMBER_BYTES;
  const members: readonly unknown[] = Array.isArray(data) ? data : Object.values(data);
  let bytes = CONTAINER_BYTES;
  for (let at = 0; at < members.length; at++) bytes += heapBytes(members[at]);
  return bytes;
}
