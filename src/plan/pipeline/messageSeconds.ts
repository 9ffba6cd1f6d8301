/**
 * The work of JavaScript and of the system that a message between engines is to each of the two, beside its bytes:
 * frames, promises, and the tasks that wait for it.
 */
const MESSAGE_SECONDS = 100e-6;
/** The same of each of its bytes: copies, checksums, sums. */
const BYTE_SECONDS = 1.5e-9;

/** Says how long a processor of an engine works on messages that it sends, or that come to it. Pure. */
export function messageSeconds(messages: number, bytes: number): number {
  return messages * MESSAGE_SECONDS + bytes * BYTE_SECONDS;
}
