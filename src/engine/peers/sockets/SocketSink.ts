import { setTimeout as sleep } from 'node:timers/promises';
import { PeerError } from '../../../errors/engineErrors.js';
import type { ActivationSink } from '../ActivationLink.js';
import type { PeerMessage } from '../PeerMessage.js';
import { whole } from './codecs.js';
import type { FrameConnection } from './FrameConnection.js';
import type { HiddenStates } from '../../grid/HiddenStates.js';
import { reasonOf, valueOf } from './handshake.js';
import { messagePayload } from './messageFrames.js';
import { CREDIT_LIMITS } from './messageLimits.js';

/**
 * Who listens no longer has failed, or knows who has: that comes round the ring in words, a moment later, and says more
 * than that somebody has gone.
 */
const WORDS_MILLISECONDS = 500;
/** Credits are few; whoever gives more wants something else. */
const MOST_CREDITS = 1024;

interface Waiting {
  readonly message: PeerMessage;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The sending end of a link over a socket. */
export class SocketSink implements ActivationSink {
  private readonly outbox: Waiting[] = [];
  private credits = 0;
  private closed = false;
  private failure: PeerError | undefined;

  /**
   * @param hiddenStates how they are sent
   * @param mostUntakenBytes that may have been written and not taken by the peer
   * @param onSent told what is to go: also what waits until the peer has room, which a peer of no good will never says
   * @param onClose told that nothing more does
   */
  constructor(
    private readonly connection: FrameConnection,
    private readonly hiddenStates: HiddenStates,
    private readonly mostUntakenBytes: number,
    private readonly onSent: (message: PeerMessage) => void,
    private readonly onClose: () => void = () => undefined,
  ) {
    void this.listen();
  }

  send(message: PeerMessage): Promise<void> {
    if (this.closed)
      return Promise.reject(this.failure ?? new PeerError('a message was sent after the sink had been closed'));
    this.onSent(message);
    return new Promise((resolve, reject) => {
      this.outbox.push({ message, resolve, reject });
      this.pump();
    });
  }

  close(error?: Error): void {
    if (this.closed) return;
    this.closed = true;
    this.onClose();
    // What waits for a credit is nobody's any more where there was an error, and is nothing where there was none.
    this.refuseAll(new PeerError('the sink has been closed'));
    this.connection
      .write('end', error ? reasonOf(error) : [])
      .catch(() => undefined)
      .finally(() => {
        this.connection.end();
      });
  }

  private pump(): void {
    for (;;) {
      const [first] = this.outbox;
      if (!first || (first.message.kind === 'hidden' && this.credits <= 0)) return;
      this.outbox.shift();
      if (first.message.kind === 'hidden') this.credits--;
      const { untakenBytes, peer } = this.connection;
      if (untakenBytes > this.mostUntakenBytes) {
        const failure = new PeerError(
          `${peer}: found ${untakenBytes} bytes that it does not take, expected at most ${this.mostUntakenBytes}`,
        );
        this.connection.destroy(failure);
        first.reject(failure);
        this.fail(failure);
        return;
      }
      try {
        this.connection
          .write(first.message.kind, messagePayload(first.message, this.hiddenStates))
          .then(first.resolve, (error: unknown) => sleep(WORDS_MILLISECONDS).then(() => first.reject(error)));
      } catch (error) {
        first.reject(error);
      }
    }
  }

  /** Hears of credits, and of the end: also when that was ours, until the receiver has gone. */
  private async listen(): Promise<void> {
    const { connection } = this;
    try {
      for (;;) {
        const frame = await connection.read(CREDIT_LIMITS);
        if (!frame) throw new PeerError(`${connection.peer}: the receiver of activations has gone`);
        this.credits += valueOf(whole, frame);
        if (this.credits > MOST_CREDITS)
          throw new PeerError(`${connection.peer}: found ${this.credits} credits, expected at most ${MOST_CREDITS}`);
        this.pump();
      }
    } catch (error) {
      connection.destroy();
      if (this.closed) return;
      await sleep(WORDS_MILLISECONDS);
      this.fail(error instanceof PeerError ? error : new PeerError(String(error), { cause: error }));
    }
  }

  private fail(error: PeerError): void {
    this.failure = error;
    this.closed = true;
    this.onClose();
    this.refuseAll(error);
  }

  private refuseAll(error: PeerError): void {
    for (const { reject } of this.outbox.splice(0)) reject(error);
  }
}
