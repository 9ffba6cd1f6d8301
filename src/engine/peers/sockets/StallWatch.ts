import type { PeerMessage } from '../PeerMessage.js';

/**
 * Whether peers that speak still get on: results are due, and so long no message has gone either way. (A peer that
 * computes says that it is there, and so does one that never will have a result.)
 */
export class StallWatch {
  private due = 0;
  private movedAt: number;

  constructor(
    private readonly stallSeconds: number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.movedAt = now();
  }

  /** @param first whether this is the engine of the first layers, whose results come back */
  sent({ kind }: Pick<PeerMessage, 'kind'>, first: boolean): void {
    this.movedAt = this.now();
    if (first && (kind === 'hidden' || kind === 'begin')) this.due++;
  }

  received(message: PeerMessage, first: boolean): void {
    this.movedAt = this.now();
    if (first) this.due--;
    else if (message.kind === 'sweep') this.due += message.batches.length;
    else if (message.kind === 'hidden') this.due--;
  }

  /** No message follows those that were sent: the ring's end comes back. */
  closed(): void {
    this.movedAt = this.now();
    this.due++;
  }

  /** Why the peers are given up, if they are. @param waitingSince since when a message has been waited for */
  overdue(waitingSince: number): string | undefined {
    const seconds = (this.now() - Math.max(waitingSince, this.movedAt)) / 1000;
    if (this.due <= 0 || seconds <= this.stallSeconds) return undefined;
    return `found no message for ${this.stallSeconds} s, expected one: results are due`;
  }
}
