import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type {
  ClassifiedAnswer,
  EmbeddedAnswer,
  GeneratedAnswer,
  KeptAnswer,
  KeptAnswers,
  RankedAnswer,
  ScoredAnswer,
} from '../../../src/KeptAnswer.js';
import { anyCharacter } from '../../support/anyCharacter.js';

/** The key of something. */
export function keyFor(what: unknown): Buffer {
  return createHash('sha256').update(JSON.stringify(what)).digest();
}

/** An answer that says which it is; the same number has the same. */
export function answerFor(number: number, textBytes = 0): KeptAnswer {
  return {
    text: `answer ${number} ${'x'.repeat(textBytes)}`,
    tokens: [number, 2, 3],
    finishReason: number % 2 === 0 ? 'stop' : 'length',
  };
}

const token = fc.nat(2 ** 32 - 1);
const logprob = fc.oneof(
  { weight: 8, arbitrary: fc.double({ max: 0, noNaN: true, noDefaultInfinity: true }) },
  fc.constantFrom(-Infinity, -0, 0),
);
const text = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units)),
  fc.constantFrom('\ud800', 'a\udc00b', '\u0000', '\ufeff'),
);
const entry = fc.record(
  { token, logprob, top: fc.array(fc.record({ token, logprob }, { noNullPrototype: true }), { maxLength: 5 }) },
  { noNullPrototype: true },
);

const generated: fc.Arbitrary<GeneratedAnswer> = fc.record(
  {
    text,
    reasoning: text,
    tokens: fc.array(token),
    finishReason: fc.constantFrom('stop' as const, 'length' as const),
    logprobs: fc.array(entry, { maxLength: 5 }),
  },
  { requiredKeys: ['text', 'tokens', 'finishReason'], noNullPrototype: true },
);
/** Any double that a result may have: also some that no few digits say. */
const double = fc.oneof(
  { weight: 4, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
  fc.constantFrom(-0, 0, 5e-324, Number.MAX_VALUE, 0.1 + 0.2),
);
const label = fc.oneof(text, fc.constantFrom('__proto__', 'constructor', '7', ''));
const classified: fc.Arbitrary<ClassifiedAnswer> = fc.record(
  {
    label,
    probability: double,
    probabilities: fc
      .array(fc.tuple(label, double), { maxLength: 6 })
      .map((all): Record<string, number> => Object.fromEntries(all)),
  },
  { noNullPrototype: true },
);
const tokenLogprob = fc.record({ token, logprob }, { noNullPrototype: true });
const completionScore = fc.record(
  { logprob, tokens: fc.nat(1000), tokenLogprobs: fc.array(tokenLogprob, { maxLength: 4 }) },
  { requiredKeys: ['logprob', 'tokens'], noNullPrototype: true },
);
const scored: fc.Arbitrary<ScoredAnswer> = fc.record(
  { scores: fc.array(completionScore, { maxLength: 6 }) },
  { noNullPrototype: true },
);
const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
const ranked: fc.Arbitrary<RankedAnswer> = fc.record(
  {
    scores: fc.array(fc.record({ score: finite, logit: finite }, { noNullPrototype: true }), {
      minLength: 1,
      maxLength: 6,
    }),
  },
  { noNullPrototype: true },
);
/** As an engine makes them, and such that are none of float32's. */
const float32 = fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => Number(value.toPrecision(9)));
const embedded: fc.Arbitrary<EmbeddedAnswer> = fc.record(
  { embedding: fc.oneof(fc.array(float32, { maxLength: 20 }), fc.array(double, { maxLength: 20 }), fc.base64String()) },
  { noNullPrototype: true },
);

/** Answers of each task. */
export const answersOf: { readonly [Task in keyof KeptAnswers]: fc.Arbitrary<KeptAnswers[Task]> } = {
  generate: generated,
  classify: classified,
  score: scored,
  rerank: ranked,
  embed: embedded,
};
export const answers: fc.Arbitrary<KeptAnswer> = fc.oneof(generated, classified, scored, ranked, embedded);
