import { Semaphore } from '../../collections/Semaphore.js';
import { PeerError } from '../../errors/engineErrors.js';
import { errorOf } from '../../errors/errorOf.js';
import type { RunRow } from './RunRow.js';
import type { DeviceRow } from '../grid/Device.js';
import { checkMessage } from '../peers/checkMessage.js';
import type { Peers } from '../peers/PeerConnection.js';
import type { BeginMessage, PagesMessage, PeerMessage } from '../peers/PeerMessage.js';
import { bytesOfPrompt, pageStretches, type MovingMemory, type PageStretch } from '../peers/pageStretches.js';

export interface PromptedSetup {
  readonly peers: Peers;
  /** This engine's, as the other one checks it. */
  readonly begin: BeginMessage;
  readonly pageTokens: number;
  /** The size of one page, all layers, in bytes. */
  readonly pageBytes: number;
  /** Prompts that the other engine may have at once. */
  readonly mostAsked: number;
  /** Asked once, before a row is read. */
  readonly keep: () => MovingMemory;
}

/** A row whose prompt the other engine has. */
interface Asked<Result> {
  readonly row: RunRow<Result>;
  readonly stretches: readonly PageStretch[];
  readonly pages: Uint8Array[];
}

/**
 * Rows of a run whose prompts another engine computes: they come once their pages are here, in the order in which they
 * are through there. What prompts that engine has no room for, and those whose keys and values are not all that is
 * wanted of them, are computed here. What that engine computes are the bits that this one would.
 */
export class PromptedRows<Result> implements AsyncIterator<RunRow<Result>> {
  private readonly asked = new Map<number, Asked<Result>>();
  private readonly ready: RunRow<Result>[] = [];
  /** The bytes of prompts of which pages are here that no row has put in its place. */
  private waiting = new Semaphore({ count: Infinity });
  private memory: MovingMemory | undefined;
  private readonly messages: AsyncIterator<PeerMessage>;
  private nextNumber = 0;
  private begun = false;
  private pulling = false;
  private sourceEnded = false;
  /** The failure of the source, whatever it threw: rows before that are still answered. */
  private sourceFailure: { readonly error: unknown } | undefined;
  /** The prompt of which some pages are here, and not all: there is one at most. */
  private arriving: number | undefined;
  private closed = false;
  private failure: { readonly error: unknown } | undefined;
  private wake: () => void = () => undefined;

  constructor(
    private readonly source: AsyncIterator<RunRow<Result>>,
    private readonly setup: PromptedSetup,
  ) {
    this.messages = setup.peers.source[Symbol.asyncIterator]();
  }

  async next(): Promise<IteratorResult<RunRow<Result>, undefined>> {
    if (!this.begun && !this.closed) this.begin();
    for (;;) {
      const row = this.ready.shift();
      if (row) return { done: false, value: row };
      if (this.failure) throw this.failure.error;
      if (this.closed) return { done: true, value: undefined };
      if (this.sourceEnded && this.asked.size === 0) {
        this.close();
        if (this.sourceFailure) throw this.sourceFailure.error;
        continue;
      }
      this.pull();
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  return(): Promise<IteratorResult<RunRow<Result>, undefined>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Lets go of the other engine, and of the rows' source. Idempotent. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.setup.peers.sink.close();
    this.messages.return?.().catch(() => undefined);
    if (!this.sourceEnded) this.source.return?.().catch(() => undefined);
    this.waiting.open();
    this.memory?.giveBack();
    this.wake();
  }

  private begin(): void {
    this.begun = true;
    this.memory = this.setup.keep();
    this.waiting = new Semaphore({ count: Infinity, least: 1, weight: this.memory.bytes });
    this.send(this.setup.begin);
    this.receive().catch((error: unknown) => {
      this.fail(error);
    });
  }

  /** Takes rows from their source as long as the other engine may have more. */
  private pull(): void {
    if (this.pulling || this.sourceEnded || this.closed || this.failure) return;
    if (this.asked.size + this.ready.length >= this.setup.mostAsked) return;
    this.pulling = true;
    this.source.next().then(
      ({ done, value }) => {
        this.pulling = false;
        if (done === true) this.sourceEnded = true;
        else this.ask(value);
        this.pull();
        this.wake();
      },
      (error: unknown) => {
        this.sourceEnded = true;
        this.sourceFailure = { error };
        this.wake();
      },
    );
  }

  private ask(row: RunRow<Result>): void {
    const { tokens, promptTokens } = row.sequence;
    if (!canBePrompted(row) || bytesOfPrompt(tokens.length, this.setup) > (this.memory?.bytes ?? 0)) {
      this.ready.push(row);
      return;
    }
    const number = this.nextNumber++;
    this.asked.set(number, { row, stretches: pageStretches(tokens.length, this.setup), pages: [] });
    this.send({ kind: 'prompt', row: number, tokens, promptTokens: promptTokens ?? tokens.length });
  }

  private async receive(): Promise<void> {
    for (let first = true; ; first = false) {
      const step = await this.messages.next();
      if (this.closed) return;
      if (step.done === true) throw new PeerError('the engine that computes prompts has ended before the run did');
      const message = checkMessage(step.value);
      if (message.kind !== (first ? 'begin' : 'pages'))
        throw new PeerError(`message: found "${message.kind}", expected "${first ? 'begin' : 'pages'}"`);
      if (message.kind === 'pages') await this.arrive(message);
    }
  }

  private async arrive({ row: number, first, last, values }: PagesMessage): Promise<void> {
    const asked = this.asked.get(number);
    if (!asked) throw new PeerError(`pages: found those of prompt ${number}, expected those of one that was asked for`);
    const { row, stretches, pages } = asked;
    // None at all: there is no room for it.
    if (values.length === 0 && last && pages.length === 0) this.isReady(number, row);
    else {
      if (this.arriving !== undefined && this.arriving !== number)
        throw new PeerError(`pages: found those of prompt ${number}, expected the others of prompt ${this.arriving}`);
      const stretch = stretches[pages.length];
      const bytes = (stretch?.count ?? 0) * this.setup.pageBytes;
      const ends = pages.length === stretches.length - 1;
      if (!stretch || first !== stretch.first || values.length !== bytes || last !== ends)
        throw new PeerError(
          `pages: found ${values.length} bytes from page ${first} on${last ? ', the last ones' : ''}, expected ${bytes} from page ${stretch?.first ?? 0} on${ends ? ', the last ones' : ''}`,
        );
      if (pages.length === 0) await this.hold(row);
      pages.push(values);
      this.arriving = last ? undefined : number;
      if (last) this.isReady(number, this.given(asked));
    }
    this.pull();
    this.wake();
  }

  /** Waits until all pages of a row's prompt have room: the rest of them stays with the other engine. */
  private async hold({ sequence }: RunRow<Result>): Promise<void> {
    const bytes = bytesOfPrompt(sequence.tokens.length, this.setup);
    await this.waiting.room(bytes);
    this.waiting.take(bytes);
  }

  private isReady(number: number, row: RunRow<Result>): void {
    this.asked.delete(number);
    this.ready.push(row);
  }

  /** The row with its prompt's pages, of which it takes hold once. */
  private given({ row, stretches, pages }: Asked<Result>): RunRow<Result> {
    const { tokens } = row.sequence;
    return new PromptedRow(row, {
      ...row.sequence,
      given: {
        tokens: tokens.length - 1,
        take: () => {
          if (pages.length > 0) this.waiting.release(bytesOfPrompt(tokens.length, this.setup));
          return pages.splice(0).map((values, index) => ({ first: 0, count: 0, ...stretches[index], values }));
        },
      },
    });
  }

  private send(message: PeerMessage): void {
    this.setup.peers.sink.send(message).catch((error: unknown) => {
      this.fail(error);
    });
  }

  private fail(error: unknown): void {
    if (this.closed || this.failure) return;
    this.failure = { error: errorOf(error) };
    this.setup.peers.sink.close(errorOf(error));
    this.wake();
  }
}

/**
 * Keys and values of all tokens but the last are all that is wanted of the prompt, depend on its tokens alone, and are
 * kept for no rows that go on after it.
 */
function canBePrompted({ sequence, newTokens, goesOn }: RunRow<unknown>): boolean {
  return newTokens > 0 && sequence.tokens.length > 1 && sequence.pooling === undefined && goesOn !== true;
}

/** A row as it came, but for what is there of it. */
class PromptedRow<Result> implements RunRow<Result> {
  readonly newTokens: number;
  readonly countedTokens: number;

  constructor(
    private readonly row: RunRow<Result>,
    readonly sequence: DeviceRow,
  ) {
    this.newTokens = row.newTokens;
    this.countedTokens = row.countedTokens ?? 0;
  }

  begin(): void {
    this.row.begin?.();
  }

  accept(...args: Parameters<RunRow<Result>['accept']>): ReturnType<RunRow<Result>['accept']> {
    return this.row.accept(...args);
  }
}
