import { PeerError } from '../../../errors/engineErrors.js';
import { checkMessage } from '../checkMessage.js';
import type { PeerMessage } from '../PeerMessage.js';
import { ByteReader } from './ByteReader.js';
import { ByteWriter } from './ByteWriter.js';
import type { Codec } from './codecs.js';
import type { HiddenStates } from '../../grid/HiddenStates.js';
import type { Frame } from './FrameConnection.js';
import { MESSAGE_CODECS } from './messageCodecs.js';

/** Writes a message as the payload of a frame of its kind. Pure. @throws PeerError for what cannot be sent */
export function messagePayload(message: PeerMessage, hiddenStates: HiddenStates = 'float32'): readonly Uint8Array[] {
  const out = new ByteWriter();
  // Each kind has the codec of its name.
  (MESSAGE_CODECS[hiddenStates][message.kind] as Codec<PeerMessage>).write(out, message);
  return out.finish();
}

/** The message of a frame, which may say anything. Pure. @throws PeerError */
export function messageIn({ name, payload }: Frame, hiddenStates: HiddenStates = 'float32'): PeerMessage {
  if (!isKind(name)) throw new PeerError(`frame: found "${name}", expected a message`);
  const from = new ByteReader(payload);
  const codec: Codec<object> = MESSAGE_CODECS[hiddenStates][name];
  const body = codec.read(from, name);
  from.end(name);
  return checkMessage({ kind: name, ...body });
}

function isKind(name: string): name is PeerMessage['kind'] {
  return Object.hasOwn(MESSAGE_CODECS.float32, name);
}
