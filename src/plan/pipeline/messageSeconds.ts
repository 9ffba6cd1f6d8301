/**
 * The work that a message between engines is to each of the two, beside its bytes: frames, the system, and the tasks
 * that wait for it. Processor time of JavaScript on a loaded Zen 4, in `bench/shaped.mjs --apart heads` with 2 rows a
 * square.
 */
const MESSAGE_SECONDS = 100e-6;
/** The same of each of its bytes, with 64 rows and with 512 tokens a square: copies, checksums, sums, garbage. */
const BYTE_SECONDS = 2.2e-9;

/** Says how long a processor of an engine works on messages that it sends, or that come to it. Pure. */
export function messageSeconds(messages: number, bytes: number): number {
  return messages * MESSAGE_SECONDS + bytes * BYTE_SECONDS;
}
