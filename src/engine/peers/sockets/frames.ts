import * as zlib from 'node:zlib';
import { PeerError } from '../../../errors/engineErrors.js';
import type { PeerMessage } from '../PeerMessage.js';

/**
 * The kinds of frame that a connection carries. `hello` and its answers open it; `credit` goes against the messages,
 * and says that so many more hidden states may come; `ping` says that somebody is there; `end`, that no message
 * follows.
 */
export const FRAME_NAMES = [
  'hello',
  'welcome',
  'refused',
  'ping',
  'credit',
  'end',
  'begin',
  'open',
  'sweep',
  'hidden',
  'head',
  'close',
  'free',
  'partial',
  'prompt',
  'pages',
] as const satisfies readonly (PeerMessage['kind'] | 'hello' | 'welcome' | 'refused' | 'ping' | 'credit' | 'end')[];
export type FrameName = (typeof FRAME_NAMES)[number];

/** Most bytes of each frame that may come; those of other names may not. */
export type FrameLimits = Partial<Readonly<Record<FrameName, number>>>;

/** Bytes: length of the payload, number of the frame, kind, three times 0, checksum of all that and the payload. */
export const HEADER_BYTES = 16;
const CHECKED_BYTES = 12;

export interface FrameHeader {
  readonly name: FrameName;
  readonly length: number;
}

/** The frames of a payload that is in pieces: its header and these. Pure. */
export function frameOf(name: FrameName, sequence: number, payload: readonly Uint8Array[]): Uint8Array[] {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(
    payload.reduce((sum, { length }) => sum + length, 0),
    0,
  );
  header.writeUInt32LE(sequence >>> 0, 4);
  header[8] = FRAME_NAMES.indexOf(name);
  header.writeUInt32LE(checksumOf(header, payload), CHECKED_BYTES);
  return [header, ...payload];
}

/**
 * Reads a header, before a byte of the payload is made room for. Pure.
 * @param sequence the number that the frame has to have: none is missing, none comes twice
 * @throws PeerError for a frame that may not come, or that is too large
 */
export function readHeader(header: Buffer, sequence: number, limits: FrameLimits): FrameHeader {
  const length = header.readUInt32LE(0);
  const number = header.readUInt32LE(4);
  const [kind, ...rest] = header.subarray(8, CHECKED_BYTES);
  const name = FRAME_NAMES[kind ?? -1];
  const most = name && limits[name];
  if (name === undefined || most === undefined || rest.some((byte) => byte !== 0))
    throw new PeerError(
      `frame: found ${name === undefined ? `kind ${kind}` : `"${name}"`}, expected one of ${Object.keys(limits).join(', ')}`,
    );
  if (number !== sequence >>> 0)
    throw new PeerError(`frame: found number ${number}, expected ${sequence >>> 0}: one is missing or came twice`);
  if (length > most) throw new PeerError(`frame "${name}": found ${length} bytes, expected at most ${most}`);
  return { name, length };
}

/** @throws PeerError unless header and payload are as they were sent. Pure. */
export function checkFrame(header: Buffer, payload: Uint8Array): void {
  const [said, is] = [header.readUInt32LE(CHECKED_BYTES), checksumOf(header, [payload])];
  if (said !== is)
    throw new PeerError(`frame: found the checksum ${said.toString(16)}, expected ${is.toString(16)}: it was changed`);
}

function checksumOf(header: Buffer, payload: readonly Uint8Array[]): number {
  // Of nothing that has no memory zlib says 0, whatever came before.
  return payload.reduce(
    (sum, piece) => (piece.length === 0 ? sum : zlib.crc32(piece, sum)),
    zlib.crc32(header.subarray(0, CHECKED_BYTES)),
  );
}
