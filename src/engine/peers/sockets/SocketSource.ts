import { PeerError } from '../../../errors/engineErrors.js';
import type { ActivationSource } from '../ActivationLink.js';
import type { PeerMessage } from '../PeerMessage.js';
import { whole } from './codecs.js';
import type { FrameConnection } from './FrameConnection.js';
import { PayloadMemory } from './PayloadMemory.js';
import type { FrameLimits } from './frames.js';
import type { HiddenStates } from '../../grid/HiddenStates.js';
import { payloadOf, reasonIn } from './handshake.js';
import { messageIn } from './messageFrames.js';

/** Hidden states that may be on their way to who has not asked for them, at least. */
const LEAST_CREDITS = 2;

/** Most bytes of credits that the sender does not take; they are few. */
const MOST_UNTAKEN_BYTES = 2 ** 16;

/** The receiving end of a link over a socket. */
export class SocketSource implements ActivationSource {
  private taken = false;
  private readonly credits: number;
  private readonly memory: PayloadMemory;

  /**
   * @param hiddenStates how they are sent
   * @param slots batches that may be under way at once: a credit for each, or a link with latency would let fewer
   * through @param onMessage told what comes @param onEnd told that nothing more does
   */
  constructor(
    private readonly connection: FrameConnection,
    private readonly hiddenStates: HiddenStates,
    private readonly limits: FrameLimits,
    slots: number,
    private readonly onMessage: (message: PeerMessage) => void,
    private readonly onEnd: () => void = () => undefined,
  ) {
    this.credits = Math.max(LEAST_CREDITS, slots);
    // Of each slot one is added up while the next one comes; sums and exchanges have lengths of their own.
    this.memory = new PayloadMemory(4 * slots);
  }

  /** Tells whether somebody reads this source. */
  get isTaken(): boolean {
    return this.taken;
  }

  giveBack({ buffer }: Float32Array): void {
    if (buffer instanceof ArrayBuffer) this.memory.giveBack(buffer);
  }

  [Symbol.asyncIterator](): AsyncIterator<PeerMessage> {
    if (this.taken) throw new PeerError('a source of activations can be iterated once');
    this.taken = true;
    let credits = 0;
    let over = false;
    const grant = async (count: number): Promise<void> => {
      credits += count;
      // Where it cannot be said, reading fails as well, and knows why.
      await this.connection.write('credit', payloadOf(whole, count)).catch(() => undefined);
    };
    void grant(this.credits);
    const leave = (): void => {
      over = true;
      this.connection.destroy();
      this.onEnd();
    };
    return {
      next: async () => {
        if (over) return { done: true, value: undefined };
        try {
          const message = await this.message();
          if (!message) {
            leave();
            return { done: true, value: undefined };
          }
          if (message.kind === 'hidden') {
            const { untakenBytes, peer } = this.connection;
            if (untakenBytes > MOST_UNTAKEN_BYTES)
              throw new PeerError(
                `${peer}: found ${untakenBytes} bytes of credits that it does not take, expected at most ${MOST_UNTAKEN_BYTES}`,
              );
            if (credits-- <= 0)
              throw new PeerError(
                `${this.connection.peer}: found hidden states beyond ${this.credits} credits, expected none`,
              );
            void grant(1);
          }
          this.onMessage(message);
          return { done: false, value: message };
        } catch (error) {
          if (over) return { done: true, value: undefined };
          leave();
          throw error;
        }
      },
      return: () => {
        leave();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  private async message(): Promise<PeerMessage | undefined> {
    const { connection, memory } = this;
    // Sums come by the thousand; whoever adds them up gives their memory back.
    const frame = await connection.read(this.limits, (name, bytes) =>
      name === 'partial' ? memory.take(bytes) : Buffer.allocUnsafeSlow(bytes),
    );
    if (!frame) throw new PeerError(`${connection.peer}: the connection was closed before the run had ended`);
    if (frame.name !== 'end') return messageIn(frame, this.hiddenStates);
    if (frame.payload.length > 0) throw new PeerError(`${connection.peer} has failed: ${reasonIn(frame)}`);
    return undefined;
  }
}
