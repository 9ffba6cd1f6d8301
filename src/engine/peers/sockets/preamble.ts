import { PeerError } from '../../../errors/engineErrors.js';

/**
 * The version of the protocol that engines speak over sockets. It changes with every change of frames, messages and of
 * what they mean.
 */
export const PROTOCOL_VERSION = 8;

const MAGIC = Buffer.from('SPILLWAY', 'latin1');
export const PREAMBLE_BYTES = MAGIC.length + 4;

/** Makes the bytes that a connection begins with, either way, in every version. */
export function preamble(version = PROTOCOL_VERSION): Buffer {
  const bytes = Buffer.alloc(PREAMBLE_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(version, MAGIC.length);
  return bytes;
}

/** @throws PeerError unless the other side is an engine of this version. Pure. */
export function checkPreamble(bytes: Buffer, peer: string): void {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC))
    throw new PeerError(`${peer}: found something that is no engine of Spillway, expected one`);
  const version = bytes.readUInt32LE(MAGIC.length);
  if (version !== PROTOCOL_VERSION)
    throw new PeerError(
      `${peer}: found version ${version} of the protocol, expected ${PROTOCOL_VERSION}: install the same version of Spillway everywhere`,
    );
}
