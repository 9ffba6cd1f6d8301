import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { QueueError } from '../../errors/QueueError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { wordsOf } from './QueueAddress.js';

/** How long a queue that is away is waited for. */
export const AWAY_SECONDS = 300;
const FIRST_WAIT_SECONDS = 0.1;
const LONGEST_WAIT_SECONDS = 2;

export interface Persistence {
  /** Of the queue. */
  readonly name: string;
  /** What may stand in no message. */
  readonly secrets: readonly (string | undefined)[];
  /** Whether an error may be gone by itself: a connection that broke, a server that is being started. */
  readonly isTransient: (error: unknown) => boolean;
}

/**
 * Does something with a queue, again where it was away meanwhile: what is done may have been done already, and has to
 * come to the same twice.
 * @param seconds that it may be away; 0: it is asked once
 * @param signal waits no longer, once it fires
 * @throws QueueError; InterruptedError where the signal has fired
 */
export async function persistently<T>(
  { name, secrets, isTransient }: Persistence,
  what: string,
  work: () => Promise<T>,
  { seconds = AWAY_SECONDS, signal }: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (let wait = FIRST_WAIT_SECONDS; ; wait = Math.min(2 * wait, LONGEST_WAIT_SECONDS)) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      const late = performance.now() + wait * 1000 > deadline;
      // Without the client's error as cause, which may hold the URL.
      if (late || !isTransient(error)) throw new QueueError(name, `cannot ${what}: ${wordsOf(error, secrets)}`);
      await pause(wait, signal);
    }
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
