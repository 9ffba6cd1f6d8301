import { found } from '../../arguments/found.js';
import { isWithin, rangeWords, wholeRange } from '../../arguments/NumberRange.js';
import { PeerError } from '../../errors/engineErrors.js';
import type { PeerMessage } from './PeerMessage.js';

/**
 * Where an engine's input comes from: hidden states from the engine of the layers before, or, for the first one, the
 * last one's results. Pulled: what is not pulled waits at the sender. It ends when the sender has closed its sink well,
 * and throws when the sender failed. Iterated once; whoever stops iterating calls `return`, and the sender learns that
 * nobody listens any more.
 */
export interface ActivationSource extends AsyncIterable<PeerMessage> {
  /** Takes the numbers of a partial sum back that nobody looks at any more: their memory is for those to come. */
  giveBack?(values: Float32Array): void;
}

/** Batches whose hidden states may wait in a link. */
const CAPACITY = wholeRange(1);

/**
 * Where an engine's output goes: the other end of an `ActivationSource`. Messages arrive in the order in which they
 * were sent, each once.
 */
export interface ActivationSink {
  /**
   * Takes a message. The promise resolves when there is room for the next one: until then the hidden states' slot is in
   * use, which stops the sender sooner or later. Other messages may be sent without waiting: they are small, and their
   * number is bounded by the slots.
   *
   * @throws (rejects) when the receiver has gone, or the way there is broken
   */
  send(message: PeerMessage): Promise<void>;
  /** No message follows. With an error: because the sender failed. Idempotent. */
  close(error?: Error): void;
}

export interface ActivationLink {
  readonly sink: ActivationSink;
  readonly source: ActivationSource;
}

/**
 * Two ends of a queue in memory, between two engines of one process. A pair over sockets, pipes or worker ports has to
 * keep the same promises.
 *
 * @param capacity hidden states of batches that may wait in it. Default 2
 */
export function activationLink({ capacity = 2 }: { readonly capacity?: number } = {}): ActivationLink {
  if (!isWithin(capacity, CAPACITY))
    throw new RangeError(`capacity: found ${found(capacity)}, expected ${rangeWords(CAPACITY, capacity)}`);
  const queue: {
    readonly message: PeerMessage;
    readonly accept: () => void;
    readonly refuse: (error: Error) => void;
  }[] = [];
  let waiting = 0;
  let closed = false;
  let failure: Error | undefined;
  let gone = false;
  let taken = false;
  let wake: () => void = () => undefined;

  const accepted = (): void => {
    let hidden = 0;
    for (const { message, accept } of queue) {
      if (message.kind === 'hidden' && ++hidden > capacity) break;
      accept();
    }
  };
  const leave = (): void => {
    gone = true;
    for (const { refuse } of queue.splice(0)) refuse(new PeerError('the receiver of activations has gone'));
    wake();
  };
  return {
    sink: {
      send: (message) => {
        if (gone) return Promise.reject(new PeerError('the receiver of activations has gone'));
        if (closed) return Promise.reject(new PeerError('a message was sent after the sink had been closed'));
        return new Promise((resolve, reject) => {
          queue.push({ message, accept: resolve, refuse: reject });
          if (message.kind === 'hidden') waiting++;
          if (waiting <= capacity) resolve();
          wake();
        });
      },
      close: (error) => {
        if (closed) return;
        closed = true;
        failure = error;
        wake();
      },
    },
    source: {
      [Symbol.asyncIterator]: () => {
        if (taken) throw new PeerError('a source of activations can be iterated once');
        taken = true;
        return {
          next: async () => {
            while (queue.length === 0 && !closed && !gone) await new Promise<void>((resolve) => (wake = resolve));
            if (gone) return { done: true, value: undefined };
            // A failure does not wait for what was sent before it: nobody needs that any more.
            if (failure) {
              const error = failure;
              leave();
              throw error;
            }
            const first = queue.shift();
            if (!first) return { done: true, value: undefined };
            first.accept();
            if (first.message.kind === 'hidden') {
              waiting--;
              accepted();
            }
            return { done: false, value: first.message };
          },
          return: () => {
            leave();
            return Promise.resolve({ done: true, value: undefined });
          },
        };
      },
    },
  };
}
