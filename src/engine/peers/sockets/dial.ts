import { connect as connectNet, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { PeerError } from '../../../errors/engineErrors.js';
import { InterruptedError } from '../../../errors/InterruptedError.js';
import { addressWords, type PeerAddress } from './PeerAddress.js';
import { tlsOptions, type PeerSecurity } from './PeerSecurity.js';
import { reach, type Endpoint } from './reach.js';

/** Somebody who does not listen yet is dialled again so often. */
const AGAIN_MILLISECONDS = 100;
/** The errors of one who has not begun to listen. */
const NOT_YET: readonly unknown[] = ['ECONNREFUSED', 'ENOENT'];

/**
 * A connection to an engine, with whatever proves who both are; one that does not listen yet is waited for.
 * @throws PeerError, InterruptedError
 */
export async function dial(
  address: PeerAddress,
  security: PeerSecurity,
  { seconds, signal }: { readonly seconds: number; readonly signal?: AbortSignal | undefined },
): Promise<Socket> {
  const endpoint = await reach(address, security);
  const until = performance.now() + seconds * 1000;
  for (;;) {
    const left = until - performance.now();
    const tried = await attempt(endpoint, security, left, signal);
    if ('socket' in tried) return tried.socket;
    if (signal?.aborted) throw new InterruptedError(signal.reason);
    if (!NOT_YET.includes(tried.code) || performance.now() + AGAIN_MILLISECONDS > until)
      throw new PeerError(
        `${addressWords(address)}: found ${tried.words}, expected an engine that follows${tried.code === 'ECONNREFUSED' ? `, within ${seconds} s` : ''}`,
        { cause: tried.error },
      );
    await sleep(AGAIN_MILLISECONDS);
  }
}

type Attempt =
  { readonly socket: Socket } | { readonly code: unknown; readonly words: string; readonly error: Error | undefined };

function attempt(
  endpoint: Endpoint,
  security: PeerSecurity,
  milliseconds: number,
  signal: AbortSignal | undefined,
): Promise<Attempt> {
  const secured = tlsOptions(security);
  const socket = secured ? connectTls({ ...endpoint, ...secured }) : connectNet(endpoint);
  return new Promise((resolve) => {
    const settle = (outcome: Attempt): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      if (!('socket' in outcome)) socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => {
      settle({ code: 'ETIMEDOUT', words: 'no answer', error: undefined });
    }, milliseconds);
    const onAbort = (): void => {
      settle({ code: 'ABORT_ERR', words: 'an interruption', error: undefined });
    };
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    socket.once(secured ? 'secureConnect' : 'connect', () => {
      socket.setNoDelay(true);
      settle({ socket });
    });
    // Kept: what fails later is for whoever listens then.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      settle({ code: error.code, words: error.message, error });
    });
    socket.once('close', () => {
      settle({ code: 'ECONNRESET', words: 'a connection that was closed at once', error: undefined });
    });
  });
}
