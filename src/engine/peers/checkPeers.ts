import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Peers } from './PeerConnection.js';

/** @throws UsageError unless they are the two ends that an engine needs, to those of the layers before and after */
export function checkPeers(peers: unknown): asserts peers is Peers {
  const { source, sink } = (peers ?? {}) as Partial<Record<keyof Peers, unknown>>;
  if (typeof (source as Partial<Peers['source']> | undefined)?.[Symbol.asyncIterator] !== 'function')
    throw wrong('source', source, 'what engines send, as an async iterable');
  const { send, close } = (sink ?? {}) as Partial<Peers['sink']>;
  if (typeof send !== 'function' || typeof close !== 'function')
    throw wrong('sink', sink, 'an object with send and close');
}

function wrong(end: keyof Peers, value: unknown, expected: string): UsageError {
  return new UsageError(`peers.${end}: found ${found(value)}, expected ${expected}: see activationLink`);
}
