import { BlockList, isIP } from 'node:net';
import { found } from '../../../arguments/found.js';
import { UsageError } from '../../../errors/UsageError.js';

/** Where an engine listens: on a port, or on a Unix socket. */
export type PeerAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string };

const UNIX = 'unix:';
const MOST_PORT = 65_535;
/** Most bytes of a path that the kernel takes, on all systems. */
const MOST_PATH_BYTES = 103;
export const MOST_ADDRESS_CHARACTERS = 512;

/**
 * Reads the address of an engine: `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`. Pure.
 * @param name what errors call it
 * @throws UsageError
 */
export function parsePeerAddress(value: unknown, name = 'address'): PeerAddress {
  if (typeof value === 'string' && value.length <= MOST_ADDRESS_CHARACTERS) {
    if (value.startsWith(UNIX)) {
      const path = value.slice(UNIX.length);
      if (path !== '' && !path.includes('\0') && Buffer.byteLength(path) <= MOST_PATH_BYTES)
        return { kind: 'unix', path };
    } else {
      const [, bracketed, plain, digits] = /^(?:\[([^\]\s]+)\]|([^:[\]\s/]+)):(\d{1,5})$/.exec(value) ?? [];
      const host = bracketed ?? plain;
      const port = Number(digits);
      if (host !== undefined && port <= MOST_PORT && (bracketed === undefined || isIP(bracketed) === 6))
        return { kind: 'tcp', host, port };
    }
  }
  throw new UsageError(
    `${name}: found ${found(value)}, expected HOST:PORT, [IPV6]:PORT, or unix:PATH of at most ${MOST_PATH_BYTES} bytes`,
  );
}

/** As `parsePeerAddress` reads it. Pure. */
export function addressWords(address: PeerAddress): string {
  if (address.kind === 'unix') return `${UNIX}${address.path}`;
  return `${isIP(address.host) === 6 ? `[${address.host}]` : address.host}:${address.port}`;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * Tells whether only this machine reaches what listens at an address. Pure. @param ip no name: names may mean anything
 */
export function isLoopback(ip: string): boolean {
  return LOOPBACK.check(ip, isIP(ip) === 6 ? 'ipv6' : 'ipv4');
}
