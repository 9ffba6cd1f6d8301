import { RowError } from '../../errors/RowError.js';
import type { TokenLogprob } from '../../KeptAnswer.js';
import type { ChoiceBranch, ChoiceTree, SortedChoice } from '../grammar/ChoiceTree.js';
import type { DeviceRow } from '../grid/Device.js';
import type { HeadOutput } from '../grid/Task.js';
import type { RowId } from '../grid/Square.js';
import { GREEDY } from '../execution/greedy.js';
import { Continuation, type RunRow } from '../execution/RunRow.js';
import type { ActiveRow, OrderedResult } from './ActiveRow.js';
import { ContinuedRow } from './ContinuedRow.js';
import { notFinite } from './notFinite.js';

type Ended = OrderedResult | Continuation<OrderedResult>;

/** How likely what leads to a branch is. */
interface Scored {
  /** From the first token on, as `classify` adds. */
  readonly sum: number;
  readonly logprobs: readonly number[];
}

/** A token of the choice. */
interface ScoredToken extends TokenLogprob {
  top: readonly TokenLogprob[];
}

/** How many rows go on at once, first and at most: as many of them as hold so many tokens of the prompt. */
const AT_ONCE = { first: 8, most: 64, tokens: 2 ** 17 };
/** Branches that are so much less likely than the best one (natural logarithm) wait for how that one goes on. */
const NEAR = 6;

/**
 * A row that is answered with the likeliest of its choices, taken as wholes. Its prompt says how likely each first
 * token is; from there on the likeliest branches of the tree of choices go on in rows of their own, which begin with
 * the keys and values that others have left, until no branch is as likely as the best whole choice: no token makes
 * anything likelier.
 */
export class ChosenRow implements RunRow<OrderedResult> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  private open: (ChoiceBranch & Scored)[] = [];
  private best: (Scored & { readonly choice: SortedChoice }) | undefined;
  private width = AT_ONCE.first;
  private underWay = 0;
  private ended = false;
  /** How likely whole choices are, and beginnings of those that are left out (natural logarithm). */
  private readonly weighed: number[] = [];

  /**
   * @param row makes a result of the choice
   * @param alternatives that are reported with each token; undefined for no log-probabilities
   * @param over what becomes of a result that comes of a row that goes on
   * @param tellsConfidence whether it says how likely the choice is among all
   */
  constructor(
    private readonly prompt: readonly number[],
    private readonly tree: ChoiceTree,
    private readonly row: ActiveRow,
    private readonly alternatives: number | undefined,
    private readonly over: (ended: OrderedResult) => Ended = (ended) => ended,
    private readonly tellsConfidence = false,
  ) {
    const candidates = tree.branches(tree.root).map(([token]) => token);
    this.sequence = { ...GREEDY, tokens: prompt, capacityTokens: prompt.length + 1, candidates };
  }

  begin(at?: number): void {
    this.row.begin(at);
  }

  accept(head: HeadOutput, row: RowId): Ended | undefined {
    const found = peeked(head, row, this.prompt.length - 1);
    if (!found) return undefined;
    if (found instanceof RowError) return this.row.decided(found);
    const { root } = this.tree;
    this.grow({ ...root, sum: 0, logprobs: [] }, found);
    return this.next();
  }

  /** A branch has its next tokens. */
  private grow(branch: ChoiceBranch & Scored, found: readonly TokenLogprob[]): void {
    const logprobs = new Map(found.map(({ token, logprob }) => [token, logprob]));
    for (const [token, after] of this.tree.branches(branch))
      this.reached(after, scored(branch, [logprobs.get(token) ?? NaN]));
  }

  private reached(branch: ChoiceBranch, scores: Scored): void {
    const choice = this.tree.ended(branch);
    if (choice) {
      const { sum } = scores;
      this.weighed.push(sum);
      const { best } = this;
      if (!best || sum > best.sum || (sum === best.sum && choice.at < best.choice.at))
        this.best = { ...scores, choice };
    }
    // Equal ones end together.
    if (!choice || this.tree.branches(branch).length > 0) this.open.push({ ...branch, ...scores });
  }

  /** Goes on with the choices that are likely enough; where none is, the row has its answer. */
  private next(): Ended {
    // How likely a choice is among all is known once what is near it is.
    const least = (this.best?.sum ?? -Infinity) - (this.tellsConfidence ? NEAR : 0);
    const open = this.open.filter(({ sum }) => sum >= least).sort((a, b) => b.sum - a.sum || a.from - b.from);
    for (const { sum } of this.open) if (sum < least) this.weighed.push(sum);
    const [first] = open;
    if (!first || this.isKnown(open)) return this.finish(first && this.tree.only(first));
    const late = this.row.lateness();
    if (late) return this.row.decided(late);
    const near = open.findIndex(({ sum }) => sum < first.sum - NEAR);
    const now = open.splice(0, Math.min(this.width, this.room, near < 0 ? open.length : near));
    this.open = open;
    this.width = Math.min(2 * this.width, AT_ONCE.most);
    this.underWay = now.length;
    return new Continuation(now.map((branch) => this.goingOn(branch)));
  }

  /** Tells whether there is one choice alone, and nobody asks how likely it is. */
  private isKnown([first, second]: readonly ChoiceBranch[]): boolean {
    return !this.best && !second && this.alternatives === undefined && first !== undefined && !!this.tree.only(first);
  }

  /** Rows that may wait at once: each holds the prompt. */
  private get room(): number {
    return Math.min(AT_ONCE.most, Math.max(AT_ONCE.first, Math.floor(AT_ONCE.tokens / this.prompt.length)));
  }

  private goingOn(branch: ChoiceBranch & Scored): RunRow<OrderedResult> {
    const { prompt, tree } = this;
    const chain = tree.chain(branch);
    if (chain.length === 0) {
      const candidates = tree.branches(branch).map(([token]) => token);
      return new PeekedRow(prompt, tree.path(branch), { candidates }, (found) =>
        this.wentOn(found, (logprobs) => {
          this.grow(branch, logprobs);
        }),
      );
    }
    const behind = { ...branch, depth: branch.depth + chain.length };
    return new ContinuedRow<OrderedResult>(prompt, tree.path(behind), branch.depth, (found) =>
      this.wentOn(found, (logprobs) => {
        this.reached(behind, scored(branch, logprobs));
      }),
    );
  }

  /** One of the rows under way has come to its end. @param more what goes on meanwhile @param then what follows all */
  private wentOn<Found>(
    found: Found | RowError,
    use: (found: Found) => void,
    more = (): Ended => new Continuation(),
    then = (): Ended => this.next(),
  ): Ended {
    if (this.ended) return new Continuation();
    this.underWay--;
    if (found instanceof RowError) return this.fail(found);
    use(found);
    if (this.underWay > 0) return more();
    const ended = then();
    return ended instanceof Continuation ? ended : this.over(ended);
  }

  /** @param only the choice, where there is no other */
  private finish(only?: SortedChoice): Ended {
    const { sum = 0, logprobs = [], choice = only } = this.best ?? {};
    if (!choice || !Number.isFinite(sum))
      return this.row.decided(new RowError('numeric', 'the model gives none of the choices any probability at all'));
    const { text, tokens } = choice;
    const told = tokens.map((token, at): ScoredToken => ({ token, logprob: logprobs[at] ?? NaN, top: [] }));
    const confidence = this.confidence(sum);
    const decided = { text, tokens: told, ...(confidence !== undefined && { confidence }) };
    if ((this.alternatives ?? 0) === 0 || tokens.length === 0) return this.row.decided(decided);
    return this.peekAt(told, () => this.row.decided(decided));
  }

  /** How likely the choice is among all; of those that were left out their beginnings count. */
  private confidence(sum: number): number | undefined {
    if (!this.tellsConfidence) return undefined;
    const others = this.weighed.reduce((total, each) => total + Math.exp(each - sum), 0);
    return others > 0 ? Math.min(1, 1 / others) : 1;
  }

  /** Finds what else could have stood in the place of each token, a few at a time: each holds the prompt. */
  private peekAt(told: ScoredToken[], decide: () => OrderedResult): Ended {
    const { prompt, alternatives: logprobs = 0 } = this;
    const tokens = told.map(({ token }) => token);
    const toCome = [...told.keys()];
    this.underWay = told.length;
    const next = (count: number): Ended =>
      new Continuation(
        toCome.splice(0, count).map(
          (at) =>
            new PeekedRow(prompt, tokens.slice(0, at), { logprobs }, (found) =>
              this.wentOn(
                found,
                (top) => {
                  const each = told[at];
                  if (each) each.top = top;
                },
                () => next(1),
                decide,
              ),
            ),
        ),
      );
    return next(this.room);
  }

  private fail(error: RowError): Ended {
    this.ended = true;
    return this.over(this.row.decided(error));
  }
}

/** A row that finds out what could come after a prompt and the beginning of a choice. */
class PeekedRow implements RunRow<OrderedResult> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  readonly countedTokens: number;

  constructor(
    prompt: readonly number[],
    path: readonly number[],
    wanted: Pick<DeviceRow, 'candidates'> | Pick<DeviceRow, 'logprobs'>,
    private readonly onFound: (found: readonly TokenLogprob[] | RowError) => Ended,
  ) {
    const tokens = [...prompt, ...path];
    const { length: promptTokens } = prompt;
    this.sequence = { ...GREEDY, tokens, capacityTokens: tokens.length + 1, promptTokens, ...wanted };
    this.countedTokens = promptTokens;
  }

  accept(head: HeadOutput, row: RowId): Ended | undefined {
    const found = peeked(head, row, this.sequence.tokens.length - 1);
    return found && this.onFound(found);
  }
}

function peeked(head: HeadOutput, row: RowId, position: number): readonly TokenLogprob[] | RowError | undefined {
  const sampled = head.sampled.get(row);
  if (!sampled) return undefined;
  const { notFinite: place, top } = sampled;
  const odd = place !== undefined || top.some(({ logprob }) => Number.isNaN(logprob));
  return odd ? new RowError('numeric', notFinite(position, place?.layer)) : top;
}

function scored({ sum, logprobs }: Scored, more: readonly number[]): Scored {
  return { sum: more.reduce((total, logprob) => total + logprob, sum), logprobs: [...logprobs, ...more] };
}
