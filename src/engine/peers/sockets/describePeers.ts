import { dialPeer } from './dialPeer.js';
import { parseAddresses } from './connectPeers.js';
import type { BlockShape } from '../PeerMessage.js';
import type { ResultIdentity } from '../../open/resultIdentity.js';
import type { LayerPlace } from './layerPlace.js';
import { addressWords } from './PeerAddress.js';
import { checkSocketOptions, SOCKET_OPTIONS, type SocketOptions } from './SocketOptions.js';

/** The description that a listening engine gives of itself. */
export interface PeerDescription {
  readonly address: string;
  readonly layers: LayerPlace;
  /** The engine of the first layers must not have been opened with a larger one. */
  readonly block: BlockShape;
}

/**
 * Asks engines that listen what layers they have, before there is one of the first layers.
 * @throws UsageError, PeerError, InterruptedError
 */
export async function describePeers(
  addresses: readonly string[],
  options: SocketOptions = {},
): Promise<PeerDescription[]> {
  checkSocketOptions(options);
  return Promise.all(
    parseAddresses('addresses', addresses).map(async (address) => {
      const nobody = { run: '', identity: new Map<string, string>(), layers: { first: 0, count: 0, of: 0 }, route: [] };
      const { connection, welcome } = await dialPeer(address, { ...nobody, role: 'ask' }, options);
      connection.destroy();
      const { layers, block } = welcome;
      return { address: addressWords(address), layers, block };
    }),
  );
}

/**
 * Makes the part of `resultIdentity` that engines of a ring have together, in the place of what the first one says: all
 * layers, so that an output is gone on with by a ring, by another one, or by one engine; but where hidden states are
 * rounded on their way only by one that rounds them before the same layers. Pure.
 *
 * @param peers those that follow, as `describePeers` tells of them
 */
export function ringIdentity(
  peers: readonly Pick<PeerDescription, 'layers'>[],
  { hiddenStates = SOCKET_OPTIONS.hiddenStates.fallback }: Pick<SocketOptions, 'hiddenStates'> = {},
): Pick<ResultIdentity, 'layers' | 'hiddenStates'> {
  if (hiddenStates === 'float32') return { layers: null };
  return { layers: null, hiddenStates: { sentAs: hiddenStates, before: peers.map(({ layers }) => layers.first) } };
}
