import { Subject, takeUntil, type Observable } from 'rxjs';
import { Channel, type ChannelSource, type Queue } from '../collections/Channel.js';

/**
 * A stream as something to pull. Values wait until they are taken; what bounds their number is `onTaken`, by which the
 * source learns how many are still waiting. It subscribes when iteration begins and unsubscribes when it ends: with
 * `return` at once, also while a value is awaited.
 *
 * @param onTaken called with a value that is handed to the consumer
 * @param settled awaited before the iteration ends, in whatever way
 */
export function iterated<T>(
  source$: Observable<T>,
  onTaken?: (value: T) => void,
  settled?: () => Promise<void>,
): AsyncGenerator<T, void, undefined> {
  return channelOf(source$, { ...(onTaken && { taken: onTaken }), ...(settled && { settled }) });
}

/** A channel that a stream fills, from when the first value is asked for. */
export function channelOf<T>(
  source$: Observable<T>,
  { queue, ...told }: Pick<ChannelSource<T>, 'taken' | 'settled'> & { readonly queue?: Queue<T> },
): Channel<T> {
  // Not by a subscription: a source that emits while it is subscribed to has given none yet.
  const stopped$ = new Subject<void>();
  let begun = false;
  const channel: Channel<T> = new Channel<T>(
    {
      ...told,
      wanted: () => {
        if (begun) return;
        begun = true;
        source$.pipe(takeUntil(stopped$)).subscribe({
          next: (value) => {
            channel.push(value);
          },
          error: (error: unknown) => {
            channel.fail(error);
          },
          complete: () => {
            channel.close();
          },
        });
      },
      stop: () => {
        stopped$.next();
      },
    },
    queue,
  );
  return channel;
}
