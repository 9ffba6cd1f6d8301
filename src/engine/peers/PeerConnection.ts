import { PeerError } from '../../errors/engineErrors.js';
import { errorOf } from '../../errors/errorOf.js';
import type { DevicePeers, Received } from '../grid/Device.js';
import type { Task } from '../grid/Task.js';
import type { Lengths } from '../grid/rowExchange.js';
import { batchKey, layerBounds, type Grid } from '../grid/Square.js';
import { checkMessage } from './checkMessage.js';
import type { ActivationSink, ActivationSource } from './ActivationLink.js';
import { SampledTokens } from './SampledTokens.js';
import type { HiddenMessage, PeerMessage, RunMessage } from './PeerMessage.js';
import { PartialSums } from './PartialSums.js';

/** The two ends that an engine holds. */
export interface Peers {
  /** The source of the engine of the layers before; for the first, that of the last one. */
  readonly source: ActivationSource;
  /** To the engine of the layers after; to the first one, for the last. */
  readonly sink: ActivationSink;
}

/** Who is told what comes in. */
export interface ConnectionEvents {
  readonly onMessage: (message: RunMessage) => void;
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
  /** Batches that were announced, and whose hidden states have not come. */
  private readonly announced = new Set<string>();
  /** Batches whose hidden states are here and not asked for, and those of which it is the other way round. */
  private held = 0;
  private awaited = 0;
  private roomCame: () => void = () => undefined;
  private readonly embeds: boolean;
  private readonly mostHeld: number;
  /** Hidden states go on to the engine after: each has a share of the same layers. */
  private readonly forwards: boolean;
  private readonly sums: PartialSums | undefined;
  private closed = false;
  private started = false;
  private sourceEnded = false;

  /**
   * @param grid where tokens are embedded here these come in. Of as many slots hidden states may wait here; of twice as
   * many while others are waited for, which an engine whose stages let slots pass each other may send later
   */
  constructor(
    peers: Peers,
    { layers, part, share, slots }: Pick<Grid, 'layers' | 'part' | 'share' | 'slots'>,
    private readonly events: ConnectionEvents,
  ) {
    this.embeds = layerBounds({ layers, ...(part && { part }), ...(share && { share }) }).embeds;
    this.mostHeld = slots;
    this.forwards = share !== undefined && share.index > 0 && share.index < share.of - 1;
    this.sums =
      share &&
      new PartialSums(share, slots, {
        send: (message) => {
          this.post(message);
        },
        // It may be after what is held.
        awaited: () => {
          this.roomCame();
        },
        added: (values) => {
          peers.source.giveBack?.(values);
        },
      });
    this.source = peers.source[Symbol.asyncIterator]();
    this.sink = peers.sink;
  }

  /** Batches that were announced, and of which nothing has come. */
  get missing(): number {
    return this.announced.size;
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
      } else {
        this.arrivals.set(key, { take: resolve });
        this.awaited++;
        // What is waited for may be after what is held.
        this.roomCame();
      }
    });
    return { hidden };
  }

  async send({ batch: { pass, slot } }: Task, hidden: Float32Array): Promise<void> {
    await this.deliver({ kind: 'hidden', pass, slot, hidden });
  }

  reduce(task: Task, values: Float32Array): Promise<Float32Array> {
    if (!this.sums) return Promise.reject(new PeerError('partial: found layers that nobody shares, expected shares'));
    return this.sums.reduce(task, values);
  }

  exchange(task: Task, going: Float32Array, lengths: Lengths): Promise<Float32Array[]> {
    if (!this.sums) return Promise.reject(new PeerError('partial: found layers that nobody shares, expected shares'));
    return this.sums.exchange(task, going, lengths);
  }

  giveBack(arrived: readonly Float32Array[]): void {
    this.sums?.giveBack(arrived);
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
    this.sums?.close();
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
        while (this.held >= this.mostHeld && this.awaited === 0 && !this.sums?.awaits && !this.closed)
          await new Promise<void>((resolve) => (this.roomCame = resolve));
        const step = await this.source.next();
        if (step.done === true) {
          this.sourceEnded = true;
          if (!this.closed) this.events.onEnd();
          return;
        }
        if (this.closed) continue;
        const message = checkMessage(step.value);
        if (message.kind === 'hidden') {
          if (this.forwards) this.post({ ...message, hidden: message.hidden.slice() });
          this.arrive(message);
        } else if (message.kind === 'partial') {
          if (!this.sums) throw new PeerError('message: found "partial", expected none: nobody shares these layers');
          this.sums.arrive(message);
        } else if (message.kind === 'prompt' || message.kind === 'pages') {
          throw new PeerError(
            `message: found "${message.kind}", expected none: engines of some of the layers compute prompts together`,
          );
        } else {
          if (message.kind === 'sweep') for (const batch of message.batches) this.announced.add(batchKey(batch));
          this.events.onMessage(message);
        }
      }
    } catch (error) {
      this.sourceEnded = true;
      this.fail(asPeerError(error, 'the engine of the layers before has failed'));
    }
  }

  private arrive({ pass, slot, hidden }: HiddenMessage): void {
    const key = batchKey({ pass, slot });
    // Held for ever, they would keep what is waited for from being read.
    if (!this.announced.delete(key))
      throw new PeerError(
        `hidden states: found those of pass ${pass}, slot ${slot}, expected those of a batch that was announced, once`,
      );
    const take = this.arrivals.get(key)?.take;
    if (take) {
      this.arrivals.delete(key);
      this.awaited--;
      take(hidden);
      return;
    }
    if (this.held >= 2 * this.mostHeld)
      throw new PeerError(
        `hidden states: found those of pass ${pass}, slot ${slot} after ${this.held} batches that are not to be computed yet, expected those that are`,
      );
    this.arrivals.set(key, { hidden });
    this.held++;
  }

  private fail(error: unknown): void {
    if (!this.closed) this.events.onFailure(errorOf(error));
  }
}

function asPeerError(error: unknown, what: string): Error {
  if (error instanceof PeerError) return error;
  return new PeerError(`${what}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
}
