import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type { KeptAnswer } from '../../../src/Row.js';

/** The key of something. */
export function keyFor(what: unknown): Buffer {
  return createHash('sha256').update(JSON.stringify(what)).digest();
}

/** An answer that says which it is; the same number has the same. */
export function answerFor(number: number, textBytes = 0): KeptAnswer {
  return { text: `answer ${number} ${'x'.repeat(textBytes)}`, tokens: [number, 2, 3], finishReason: number % 2 === 0 ? 'stop' : 'length' };
}

const token = fc.nat(2 ** 32 - 1);
const logprob = fc.oneof({ weight: 8, arbitrary: fc.double({ max: 0, noNaN: true, noDefaultInfinity: true }) }, fc.constantFrom(-Infinity, -0, 0));
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units)), fc.constantFrom('\ud800', 'a\udc00b', '\u0000', '\ufeff'));
const entry = fc.record({ token, logprob, top: fc.array(fc.record({ token, logprob }, { noNullPrototype: true }), { maxLength: 5 }) }, { noNullPrototype: true });

export const answers: fc.Arbitrary<KeptAnswer> = fc.record(
  { text, reasoning: text, tokens: fc.array(token), finishReason: fc.constantFrom('stop' as const, 'length' as const), logprobs: fc.array(entry, { maxLength: 5 }) },
  { requiredKeys: ['text', 'tokens', 'finishReason'], noNullPrototype: true },
);
