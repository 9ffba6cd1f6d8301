import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { QueueError } from '../../errors/QueueError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { wordsOf } from './QueueAddress.js';

/** How long a queue that is away is waited for. */
export const AWAY_SECONDS = 300;
const FIRST_WAIT_SECONDS = 0.1;
const LONGEST_WAIT_SECONDS = 2;
/** Seconds left to what is being done when the signal fires: a queue that is there answers. */
export const LAST_SECONDS = 1;
/** Never fires: for what is said in parting, whatever was stopped. */
export const UNSTOPPED: AbortSignal = new AbortController().signal;

export interface Persistence {
  /** The queue's name. */
  readonly name: string;
  /** Texts that may stand in no message. */
  readonly secrets: readonly (string | undefined)[];
  /** Tells whether an error may be gone by itself: a connection that broke, a server that is being started. */
  readonly isTransient: (error: unknown) => boolean;
  /** Makes the error to throw where it is not a queue that failed. */
  readonly failure?: (reason: string, error: unknown) => SpillwayError;
}

/**
 * Does something with a queue, again where it was away meanwhile: what is done may have been done already, and has to
 * come to the same twice.
 * @param seconds that it may be away; 0: it is asked once
 * @param signal waits no longer, once it fires; what came of what was under way is not known then
 * @throws QueueError, or the failure that is said; InterruptedError where the signal has fired
 */
export async function persistently<T>(
  { name, secrets, isTransient, failure = (reason) => new QueueError(name, reason) }: Persistence,
  what: string,
  work: () => Promise<T>,
  { seconds = AWAY_SECONDS, signal }: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (let wait = FIRST_WAIT_SECONDS; ; wait = Math.min(2 * wait, LONGEST_WAIT_SECONDS)) {
    try {
      return await (signal === undefined ? work() : untilStopped(work(), signal));
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      const late = performance.now() + wait * 1000 > deadline;
      // Without the client's error as cause, which may hold the URL.
      if (late || !isTransient(error)) throw failure(`cannot ${what}: ${wordsOf(error, secrets)}`, error);
      await pause(wait, signal);
    }
  }
}

/** @throws InterruptedError where the signal has fired, and nothing has come of it soon after */
async function untilStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let stop = (): void => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => {
      timer = setTimeout(() => reject(new InterruptedError(signal.reason)), LAST_SECONDS * 1000);
    };
  });
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop);
  try {
    return await Promise.race([work, stopped]);
  } finally {
    signal.removeEventListener('abort', stop);
    clearTimeout(timer);
  }
}

/** Waits; less where the signal fires. */
export async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(seconds * 1000, undefined, signal && { signal }).catch(() => undefined);
}

/** @throws Error when nothing has come of it by then */
export async function withinSeconds<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no answer within ${seconds} s`)), seconds * 1000);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
