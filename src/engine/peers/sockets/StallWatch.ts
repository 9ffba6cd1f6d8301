import type { PeerMessage } from '../PeerMessage.js';

/**
 * Watches whether peers that speak still get on: results are due, and so long no message has gone either way. (A peer
 * that computes says that it is there, and so does one that never will have a result.)
 */
export class StallWatch {
  /** Messages that are to come of what went; never fewer than none, whatever else comes. */
  private due = 0;
  private movedAt: number;
  private movedOnce = false;
  private ending = false;
  /** Prompts are asked for: who has enough of them, or of their pages, has rows of its own to compute meanwhile. */
  private prompts = false;

  constructor(
    private readonly stallSeconds: number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.movedAt = now();
  }

  /** @param first whether this is the engine of the first layers, whose results come back */
  sent({ kind }: Pick<PeerMessage, 'kind'>, first: boolean): void {
    this.movedAt = this.now();
    this.prompts ||= kind === 'prompt';
    // Each partial sum that goes is answered by one that comes.
    if (kind === 'partial' || (first && (kind === 'hidden' || kind === 'begin' || kind === 'prompt'))) this.due++;
  }

  received(message: PeerMessage, first: boolean): void {
    this.movedAt = this.now();
    this.movedOnce = true;
    this.prompts ||= message.kind === 'prompt';
    if (message.kind === 'pages' && !message.last) return;
    if (!first && message.kind === 'sweep') this.due += message.batches.length;
    else if (first || message.kind === 'hidden' || message.kind === 'partial') this.due = Math.max(0, this.due - 1);
  }

  /** No message follows those that were sent: the ring's end comes back, whatever comes before it. */
  closed(): void {
    this.movedAt = this.now();
    this.ending = true;
  }

  /**
   * Why the peers are given up, if they are.
   * @param waitingSince since when a message has been waited for; undefined while nobody reads, because enough is here:
   * of a peer of no good will, it may be what is not computed before something that comes later
   * @param missed milliseconds that this process was not given: what came in them is read after this
   */
  overdue(waitingSince: number | undefined, missed = 0): string | undefined {
    this.movedAt = Math.min(this.now(), this.movedAt + missed);
    const due = waitingSince === undefined ? this.movedOnce && !this.prompts : this.due > 0 || this.ending;
    const seconds = (this.now() - Math.max(waitingSince ?? 0, this.movedAt)) / 1000;
    if (!due || seconds <= this.stallSeconds) return undefined;
    return waitingSince === undefined
      ? `found nothing computed of what it has sent for ${this.stallSeconds} s, expected to get on`
      : `found no message for ${this.stallSeconds} s, expected one: results are due`;
  }
}
