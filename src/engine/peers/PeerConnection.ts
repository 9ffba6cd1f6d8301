import { PeerError } from '../../errors/engineErrors.js';
import { errorOf } from '../../errors/errorOf.js';
import type { DevicePeers, Received } from '../grid/Device.js';
import type { Task } from '../grid/Task.js';
import { batchKey } from '../grid/Square.js';
import { checkMessage } from './checkMessage.js';
import type { ActivationSink, ActivationSource } from './ActivationLink.js';
import { SampledTokens } from './SampledTokens.js';
import type { HiddenMessage, PeerMessage } from './PeerMessage.js';

/** The two ends that an engine holds. */
export interface Peers {
  /** Of the engine of the layers before; of the last one, for the first. */
  readonly source: ActivationSource;
  /** To the engine of the layers after; to the first one, for the last. */
  readonly sink: ActivationSink;
}

/** Who is told what comes in. */
export interface ConnectionEvents {
  readonly onMessage: (message: Exclude<PeerMessage, HiddenMessage>) => void;
  /** The source has ended well. */
  readonly onEnd: () => void;
  readonly onFailure: (error: Error) => void;
}

interface Arrival {
  hidden?: Float32Array;
  take?: (hidden: Float32Array) => void;
}

/**
 * A run's side of the links to its peers: reads what comes, keeps it until the device asks for it, and sends what goes.
 */
export class PeerConnection implements DevicePeers {
  readonly tokens = new SampledTokens();
  private readonly source: AsyncIterator<PeerMessage>;
  private readonly sink: ActivationSink;
  private readonly arrivals = new Map<string, Arrival>();
  private held = 0;
  private roomCame: () => void = () => undefined;
  private closed = false;
  private started = false;
  private sourceEnded = false;

  /**
   * @param embeds the model's first layer is here: what comes in are tokens
   * @param mostHeld batches whose hidden states may wait here
   */
  constructor(
    peers: Peers,
    private readonly embeds: boolean,
    private readonly mostHeld: number,
    private readonly events: ConnectionEvents,
  ) {
    this.source = peers.source[Symbol.asyncIterator]();
    this.sink = peers.sink;
  }

  /** Begins to read. */
  start(): void {
    if (this.started) return;
    this.started = true;
    void this.read();
  }

  async receive({ batch }: Task): Promise<Received> {
    if (this.embeds) return { tokens: await this.tokens.take(batch) };
    const key = batchKey(batch);
    const hidden = await new Promise<Float32Array>((resolve) => {
      const arrival = this.arrivals.get(key);
      if (arrival?.hidden) {
        this.arrivals.delete(key);
        this.held--;
        this.roomCame();
        resolve(arrival.hidden);
      } else this.arrivals.set(key, { take: resolve });
    });
    return { hidden };
  }

  async send({ batch: { pass, slot } }: Task, hidden: Float32Array): Promise<void> {
    await this.deliver({ kind: 'hidden', pass, slot, hidden });
  }

  /** Sends what need not be waited for; a failure is the run's. */
  post(message: PeerMessage): void {
    this.deliver(message).catch((error: unknown) => {
      this.fail(error);
    });
  }

  /**
   * Ends both links; what the device waits for will never come. With an error, the peer before learns that nobody
   * listens any more; without one, what it still sends is read and dropped, so that it can come to its own end.
   */
  close(error?: Error): void {
    if (this.closed) return;
    this.closed = true;
    this.sink.close(error);
    this.arrivals.clear();
    this.roomCame();
    if (error && !this.sourceEnded) this.source.return?.().catch(() => undefined);
    else this.start();
  }

  private async deliver(message: PeerMessage): Promise<void> {
    if (this.closed) throw new PeerError('the run has ended');
    try {
      await this.sink.send(message);
    } catch (error) {
      throw asPeerError(error, 'the engine of the layers after takes no more');
    }
  }

  private async read(): Promise<void> {
    try {
      for (;;) {
        while (this.held >= this.mostHeld && !this.closed)
          await new Promise<void>((resolve) => (this.roomCame = resolve));
        const step = await this.source.next();
        if (step.done === true) {
          this.sourceEnded = true;
          if (!this.closed) this.events.onEnd();
          return;
        }
        if (this.closed) continue;
        const message = checkMessage(step.value);
        if (message.kind === 'hidden') this.arrive(message);
        else this.events.onMessage(message);
      }
    } catch (error) {
      this.sourceEnded = true;
      this.fail(asPeerError(error, 'the engine of the layers before has failed'));
    }
  }

  private arrive({ pass, slot, hidden }: HiddenMessage): void {
    const key = batchKey({ pass, slot });
    const arrival = this.arrivals.get(key);
    if (arrival?.hidden)
      throw new PeerError(`hidden states: found those of pass ${pass}, slot ${slot} a second time, expected them once`);
    if (arrival?.take) {
      this.arrivals.delete(key);
      arrival.take(hidden);
    } else {
      this.arrivals.set(key, { hidden });
      this.held++;
    }
  }

  private fail(error: unknown): void {
    if (!this.closed) this.events.onFailure(errorOf(error));
  }
}

function asPeerError(error: unknown, what: string): Error {
  if (error instanceof PeerError) return error;
  return new PeerError(`${what}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
}
