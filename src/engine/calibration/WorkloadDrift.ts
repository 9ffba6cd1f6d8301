import type { Workload } from '../../plan/Workload.js';

/** A change of plan, and what it was made for. */
export interface Replan {
  readonly workload: Workload;
  /** Rows that may be under way together from then on. */
  readonly rows: number;
}

/** Prompts or answers that are longer or shorter than planned by this factor are another workload. */
const FACTOR = 1.5;
/** No fewer rows than this say how long rows are. */
const LEAST_ROWS = 32;

/**
 * Keeps a bound on a block's latency where rows turn out otherwise than planned: compares those that come with those
 * that were planned for, and has a new number of rows under way found where they differ much, within a run and from one
 * run to the next. It looks at as many rows at a time as are under way together, since the first ones to end are the
 * short ones. Prompts eight times as long as planned took 5.3 s with it, and 20.9 s without, of a bound of 5 s
 * (SmolLM2, 2 processors). It gains no throughput: nothing beyond noise, for rows that were longer or shorter, in
 * memory or streamed.
 */
export class WorkloadDrift {
  readonly replans: Replan[] = [];
  private rowsNow: number;
  private planned: Workload;
  private readonly prompts = { rows: 0, tokens: 0 };
  private readonly shared = { rows: 0, tokens: 0 };
  private readonly answers = { rows: 0, tokens: 0 };

  /**
   * @param planned what the rows were taken to be
   * @param rows how many of them may be under way together
   * @param replan how many it should be for other rows
   */
  constructor(
    planned: Workload,
    rows: number,
    private readonly replan: (workload: Workload) => number,
  ) {
    this.planned = planned;
    this.rowsNow = rows;
  }

  /** Most rows that may be under way together. */
  get rows(): number {
    return this.rowsNow;
  }

  /** A row came in, whose first tokens others have computed. */
  prompt(tokens: number, shared = 0): void {
    this.prompts.rows++;
    this.prompts.tokens += tokens;
    this.shared.rows++;
    this.shared.tokens += shared;
  }

  /** A row ended with so many new tokens. */
  ended(newTokens: number): void {
    this.answers.rows++;
    this.answers.tokens += newTokens;
    if (this.answers.rows >= Math.max(LEAST_ROWS, this.rowsNow)) this.look();
  }

  private look(): void {
    const mean = ({ rows, tokens }: { rows: number; tokens: number }, fallback: number): number =>
      rows > 0 ? Math.max(1, Math.round(tokens / rows)) : fallback;
    const { promptTokens, newTokens, sharedPrefixTokens = 0 } = this.planned;
    const lengths = { promptTokens: mean(this.prompts, promptTokens), newTokens: mean(this.answers, newTokens) };
    const shared = Math.min(
      lengths.promptTokens - 1,
      this.shared.rows > 0 ? Math.round(this.shared.tokens / this.shared.rows) : sharedPrefixTokens,
    );
    const seen = { ...lengths, ...(shared > 0 && { sharedPrefixTokens: shared }) };
    for (const count of [this.prompts, this.shared, this.answers]) [count.rows, count.tokens] = [0, 0];
    // What of a prompt is a row's own decides how much of a square it takes; its length, how much memory.
    const own = seen.promptTokens - shared;
    if (
      !differ(seen.promptTokens, promptTokens) &&
      !differ(own, promptTokens - sharedPrefixTokens) &&
      !differ(seen.newTokens, newTokens)
    )
      return;
    // How many rows there are was said of the job; how many are left is not known.
    this.planned = seen;
    this.rowsNow = this.replan(seen);
    this.replans.push({ workload: seen, rows: this.rowsNow });
  }
}

function differ(seen: number, planned: number): boolean {
  return seen > planned * FACTOR || seen < planned / FACTOR;
}
