import { RowError } from '../../errors/RowError.js';
import type { DeviceRow } from '../grid/Device.js';
import { GREEDY } from '../execution/greedy.js';
import { Continuation, type RunRow } from '../execution/RunRow.js';
import type { HeadOutput } from '../grid/Task.js';
import type { RowId } from '../grid/Square.js';
import { bigEndian } from '../grammar/ChoiceTree.js';
import { ContinuedRow } from './ContinuedRow.js';
import { notFinite } from './notFinite.js';

/**
 * Completions of a prompt that go on after it at once: each holds its tokens while it waits, so many of one prompt
 * together.
 */
const AT_ONCE = { least: 64, tokens: 2 ** 17 };

/** The outcome of a row whose completions are scored. */
export interface CompletedRowEnd<Result> {
  /** @param logprobs of each completion's tokens, in their order */
  scored(logprobs: readonly (readonly number[])[]): Result;
  failed(error: RowError): Result;
}

/**
 * A prompt after which completions are scored. Its last token's logits say how likely each completion's first token
 * is, whatever number of them there is; completions of more tokens go on after it in rows of their own, which begin
 * with the keys and values that the prompt has left: none of its tokens is computed twice. One that another begins with
 * is read off that one's.
 */
export class CompletedRow<Result> implements RunRow<Result> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  readonly goesOn: boolean;
  private readonly logprobs: number[][] = [];
  /** For each completion, the one that is computed for it; undefined where its first token is all of it. */
  private readonly computedIn: readonly (number | undefined)[];
  private left: number;
  /** Completions whose rows have yet to come. */
  private readonly toCome: number[];
  private ended = false;
  private began = Infinity;

  /**
   * @param prompt at least one token @param completions each of at least one
   * @param timeout seconds that the row may take from when it has a place
   */
  constructor(
    private readonly prompt: readonly number[],
    private readonly completions: readonly (readonly number[])[],
    private readonly end: CompletedRowEnd<Result>,
    private readonly timeout = Infinity,
  ) {
    const candidates = [...new Set(completions.map(([first]) => first ?? 0))];
    this.sequence = { ...GREEDY, tokens: prompt, capacityTokens: prompt.length + 1, candidates };
    this.computedIn = longestOfEach(completions);
    this.toCome = [...new Set(this.computedIn.filter((index) => index !== undefined))];
    this.left = this.toCome.length;
    this.goesOn = this.left > 0;
  }

  begin(): void {
    this.began = performance.now();
  }

  accept(head: HeadOutput, row: RowId): Result | Continuation<Result> | undefined {
    const sampled = head.sampled.get(row);
    if (!sampled) return undefined;
    const { notFinite: place, top } = sampled;
    if (place) return this.fail(new RowError('numeric', notFinite(this.prompt.length - 1, place.layer)));
    const first = new Map(top.map(({ token, logprob }) => [token, logprob]));
    for (const completion of this.completions) this.logprobs.push([first.get(completion[0] ?? -1) ?? NaN]);
    if (this.left === 0) return this.finish();
    const late = this.late();
    if (late) return this.fail(late);
    return this.next(Math.max(AT_ONCE.least, Math.floor(AT_ONCE.tokens / this.prompt.length)));
  }

  /** So many more completions, each in a row of its own. */
  private next(count: number): Continuation<Result> {
    return new Continuation(
      this.toCome
        .splice(0, count)
        .map(
          (index) =>
            new ContinuedRow(this.prompt, this.completions[index] ?? [], 1, (found) => this.continued(index, found)),
        ),
    );
  }

  /** One of the rows after it has found the log-probabilities of all but the first token, or why there are none. */
  private continued(index: number, found: readonly number[] | RowError): Result | Continuation<Result> {
    if (this.ended) return new Continuation();
    if (found instanceof RowError) return this.fail(found);
    this.completions.forEach((completion, each) => {
      if (this.computedIn[each] !== index) return;
      for (const logprob of found.slice(0, completion.length - 1)) this.logprobs[each]?.push(logprob);
    });
    this.left--;
    if (this.left === 0) return this.finish();
    const late = this.late();
    return late ? this.fail(late) : this.next(1);
  }

  private late(): RowError | undefined {
    return performance.now() - this.began > this.timeout * 1000
      ? new RowError(
          'timeout',
          `the row has taken more than ${this.timeout} seconds, and ${this.left} of its completions are not scored`,
        )
      : undefined;
  }

  private finish(): Result {
    this.ended = true;
    try {
      return this.end.scored(this.logprobs);
    } catch (error) {
      if (error instanceof RowError) return this.end.failed(error);
      throw error;
    }
  }

  private fail(error: RowError): Result {
    this.ended = true;
    return this.end.failed(error);
  }
}

/** For each completion of more than one token, the longest one that begins with it. */
function longestOfEach(completions: readonly (readonly number[])[]): readonly (number | undefined)[] {
  const words = completions.map(bigEndian);
  const wordsOf = (index: number): Buffer => words[index] ?? Buffer.alloc(0);
  const order = [...completions.keys()].sort((a, b) => Buffer.compare(wordsOf(a), wordsOf(b)));
  const longest: (number | undefined)[] = completions.map(() => undefined);
  // In order, what begins with a completion stands right after it.
  let after: number | undefined;
  for (const index of order.reverse()) {
    const own = wordsOf(index);
    if (after === undefined || !own.equals(wordsOf(after).subarray(0, own.length))) after = index;
    if ((completions[index]?.length ?? 0) > 1) longest[index] = after;
  }
  return longest;
}
