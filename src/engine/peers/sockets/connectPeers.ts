import { randomBytes } from 'node:crypto';
import { UsageError } from '../../../errors/UsageError.js';
import { found } from '../../../arguments/found.js';
import type { Peers } from '../PeerConnection.js';
import { dialPeer } from './dialPeer.js';
import type { EngineFacts } from './EngineFacts.js';
import { isWhole } from './layerPlace.js';
import { identityFacts, type Hello } from './handshake.js';
import { messageLimits, mostUntakenBytes } from './messageLimits.js';
import { addressWords, parsePeerAddress, type PeerAddress } from './PeerAddress.js';
import { SocketSink } from './SocketSink.js';
import { SocketSource } from './SocketSource.js';
import { checkHiddenStates, checkSocketOptions, SOCKET_OPTIONS, type SocketOptions } from './SocketOptions.js';
import { StallWatch } from './StallWatch.js';

const MOST_PEERS = 64;

/** The two ends of a ring of engines over sockets, for one run. */
export interface ConnectedPeers extends Peers {
  /** Lets go of them where no run has taken them; a run does so itself at its end. Idempotent. */
  close(): void;
}

/** @throws UsageError unless they are addresses, of one engine at least */
export function parseAddresses(name: string, addresses: unknown): readonly PeerAddress[] {
  if (!Array.isArray(addresses) || addresses.length < 1 || addresses.length > MOST_PEERS)
    throw new UsageError(`${name}: found ${found(addresses)}, expected 1 to ${MOST_PEERS} addresses`);
  return addresses.map((address: unknown, index) => parsePeerAddress(address, `${name}[${index}]`));
}

/**
 * Connects the engine of a model's first layers with those of the others. It dials the next one, which dials the one
 * after it, and so on; and the last one, from which results come back.
 *
 * @param addresses of the engines after, in the order of their layers, as each engine reaches the next one
 * @throws UsageError; PeerError where one cannot be reached, refuses, or does not fit; InterruptedError
 */
export async function connectPeers(
  facts: EngineFacts,
  addresses: readonly string[],
  options: SocketOptions = {},
): Promise<ConnectedPeers> {
  checkSocketOptions(options);
  checkHiddenStates(facts.layers, options.hiddenStates);
  const [next, ...behind] = parseAddresses('addresses', addresses);
  if (isWhole(facts.layers) && behind.length > 0)
    throw new UsageError(
      `addresses: found ${addresses.length}, expected one: this engine has all layers, and one other computes its prompts`,
    );
  const last = behind.at(-1) ?? next;
  if (!next || !last) throw new UsageError('addresses: found none, expected one at least');
  const { stallSeconds = SOCKET_OPTIONS.stallSeconds.fallback, hiddenStates = SOCKET_OPTIONS.hiddenStates.fallback } =
    options;
  const watch = new StallWatch(stallSeconds);
  const hello = {
    run: randomBytes(16).toString('hex'),
    identity: identityFacts(facts.identity, hiddenStates),
    layers: facts.layers,
  };
  const forward: Hello = { ...hello, role: 'forward', route: behind.map(addressWords) };
  const { connection: there } = await dialPeer(next, forward, options);
  try {
    const { connection: back } = await dialPeer(last, { ...hello, role: 'return', route: [] }, options, watch);
    const source = new SocketSource(
      back,
      hiddenStates,
      messageLimits(facts, hiddenStates),
      facts.block.slots,
      (message) => {
        watch.received(message, true);
      },
    );
    const sink = new SocketSink(
      there,
      hiddenStates,
      mostUntakenBytes(facts),
      (message) => {
        // Where engines share each layer no head comes back.
        watch.sent(message, message.kind !== 'hidden' || facts.layers.shares === undefined);
      },
      () => {
        watch.closed();
      },
    );
    return {
      source,
      sink,
      close: () => {
        if (source.isTaken) return;
        there.destroy();
        back.destroy();
      },
    };
  } catch (error) {
    there.destroy();
    throw error;
  }
}
