import { lookup } from 'node:dns/promises';
import { UsageError } from '../../../errors/UsageError.js';
import { addressWords, isLoopback, type PeerAddress } from './PeerAddress.js';
import type { PeerSecurity } from './PeerSecurity.js';

/** The options that `net` and `tls` take to listen or to dial. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string };

/**
 * Where an address is, once names have been looked up.
 * @throws UsageError for one that others than this machine reach, where nobody would have to prove who they are
 */
export async function reach(address: PeerAddress, { sharedKey, tls }: PeerSecurity): Promise<Endpoint> {
  if (address.kind === 'unix') return { path: address.path };
  const host = await ipOf(address);
  if (sharedKey === undefined && tls === undefined && !isLoopback(host))
    throw new UsageError(
      `${addressWords(address)}: found an address beyond this machine, expected 127.0.0.1, [::1] or unix:PATH, or \`tls\` or a \`sharedKey\`: without them anybody who reaches it would be trusted`,
    );
  return { host, port: address.port };
}

async function ipOf(address: Extract<PeerAddress, { readonly kind: 'tcp' }>): Promise<string> {
  try {
    return (await lookup(address.host)).address;
  } catch (error) {
    throw new UsageError(`${addressWords(address)}: found no such host, expected one that has an address`, {
      cause: error,
    });
  }
}
