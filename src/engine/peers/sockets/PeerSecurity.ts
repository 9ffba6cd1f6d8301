import { hkdfSync } from 'node:crypto';
import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { checkMembers, type Check } from '../../../arguments/checkMembers.js';
import { found } from '../../../arguments/found.js';
import { UsageError } from '../../../errors/UsageError.js';

/** PEM. */
export interface PeerCertificates {
  readonly key: string | Uint8Array;
  readonly cert: string | Uint8Array;
  /** The certificate of an authority of your own: whoever has a certificate of it is a peer, whatever name it has. */
  readonly ca: string | Uint8Array;
}

/** By what engines know each other. Without either, they meet on one machine alone. */
export interface PeerSecurity {
  /** The same in all engines; at least 32 bytes that nobody guesses. */
  readonly sharedKey?: string | Uint8Array | undefined;
  readonly tls?: PeerCertificates | undefined;
}

const LEAST_KEY_BYTES = 32;
/** With an exchange of ephemeral keys: whoever learns the shared key later cannot read what was recorded before. */
const SHARED_KEY_CIPHERS = 'ECDHE-PSK-CHACHA20-POLY1305';
/** Shared keys have no name: all engines have the same. */
const KEY_NAME = 'spillway';

const CERTIFICATE_CHECKS: Readonly<Record<keyof PeerCertificates, Check>> = {
  key: checkBytes,
  cert: checkBytes,
  ca: checkBytes,
};

/** @throws UsageError */
export function checkSecurity({ sharedKey, tls }: { readonly sharedKey?: unknown; readonly tls?: unknown }): void {
  if (sharedKey !== undefined && tls !== undefined)
    throw new UsageError('sharedKey: found one beside tls, expected one of them');
  if (sharedKey !== undefined) {
    checkBytes('sharedKey', sharedKey);
    const bytes = Buffer.from(sharedKey).length;
    if (bytes < LEAST_KEY_BYTES)
      throw new UsageError(`sharedKey: found ${bytes} bytes, expected at least ${LEAST_KEY_BYTES} that nobody guesses`);
  }
  if (tls !== undefined) {
    checkMembers('tls', tls, CERTIFICATE_CHECKS, 'tls.');
    for (const name of Object.keys(CERTIFICATE_CHECKS))
      if (tls[name as keyof typeof tls] === undefined)
        throw new UsageError(`tls.${name}: found none, expected PEM: both sides show a certificate`);
  }
}

/** Makes the options that TLS is given for it, on either side; undefined where nobody has to prove anything. Pure. */
export function tlsOptions({ sharedKey, tls }: PeerSecurity): (TlsOptions & ClientOptions) | undefined {
  if (tls) {
    const [key, cert, ca] = [tls.key, tls.cert, tls.ca].map((pem) => Buffer.from(pem));
    return {
      key,
      cert,
      ca,
      minVersion: 'TLSv1.3',
      requestCert: true,
      rejectUnauthorized: true,
      // Each certificate of the authority is a peer's; machines are dialled by addresses that certificates do not name.
      checkServerIdentity: () => undefined,
    };
  }
  if (sharedKey === undefined) return undefined;
  const psk = Buffer.from(hkdfSync('sha256', Buffer.from(sharedKey), '', 'spillway peers', 32));
  return {
    ciphers: SHARED_KEY_CIPHERS,
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.2',
    // A server is asked with a socket and a name, a client with a hint: both prove by the handshake that they have it.
    pskCallback: ((...asked: readonly unknown[]) =>
      asked.length > 1 ? psk : { psk, identity: KEY_NAME }) as TlsOptions['pskCallback'] & ClientOptions['pskCallback'],
    checkServerIdentity: () => undefined,
  };
}

type ClientOptions = Pick<ConnectionOptions, 'checkServerIdentity' | 'pskCallback'>;

function checkBytes(name: string, value: unknown): asserts value is string | Uint8Array {
  if (typeof value !== 'string' && !(value instanceof Uint8Array))
    throw new UsageError(`${name}: found ${found(value)}, expected text or bytes`);
}
