/**
 * The work that a message between engines is to each of the two, beside its bytes: frames, the system, and the tasks
 * that wait for it. Processor time of all threads that do not compute, beyond one engine's, on a loaded Zen 4, in
 * `bench/shaped.mjs --apart heads` with 2 rows a square, between 400 and 1,600 new tokens.
 */
const MESSAGE_SECONDS = 130e-6;
/**
 * The same of each of its bytes, with 32 rows a square, by heads 3.1 and by rows 2.3: copies, checksums, encryption,
 * sums, garbage.
 */
const BYTE_SECONDS = 2.7e-9;

/** Says how long a processor of an engine works on messages that it sends, or that come to it. Pure. */
export function messageSeconds(messages: number, bytes: number): number {
  return messages * MESSAGE_SECONDS + bytes * BYTE_SECONDS;
}
