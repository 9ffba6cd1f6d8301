// Pipelines of calls: the answer to a first question becomes part of a second one about the same row; all calls of an
// engine join one run, so that rows of both questions are computed together. Answers are shown as they grow, and a
// short call goes before the others.
// Usage: node scripts/run-example.mjs 08-pipelines-of-calls [MODEL]
import { from, lastValueFrom, map, mergeMap, of, toArray } from 'rxjs';
import { classify, Engine, offloadGenerate, type ClassifyResult, type RowResult } from 'spillway';

const REVIEWS = [
  'The lamp broke after two days, and nobody answered my letters.',
  'Warm light, quickly delivered, nicely packed.',
  'It is a lamp. It is on or off.',
  'The colour is not the one in the picture, but I have come to like it.',
];

export interface Reviewed {
  readonly review: string;
  readonly summary: string;
  readonly label: string;
}

/** Summarises each review, then asks of the summary what mood it has. */
export async function reviewed(engine: Engine, reviews: readonly string[]): Promise<readonly Reviewed[]> {
  return lastValueFrom(
    from(reviews.entries()).pipe(
      // At most 64 reviews are on their way at once: mergeMap asks for the next one when one is through.
      mergeMap(
        ([id, review]) =>
          of({ id, prompt: `Review: ${review}\nIn a few words:` }).pipe(
            offloadGenerate(engine, { maxNewTokens: 12, stop: ['\n'] }),
            mergeMap(({ text }: RowResult) =>
              of({ id, prompt: `${review} ${text}\nMood:` }).pipe(
                classify(engine, { labels: [' good', ' bad', ' neither'] }),
                map(({ label = '' }: ClassifyResult) => ({ id, review, summary: text.trim(), label: label.trim() })),
              ),
            ),
          ),
        64,
      ),
      toArray(),
      map((all) =>
        [...all].sort((a, b) => a.id - b.id).map(({ review, summary, label }) => ({ review, summary, label })),
      ),
    ),
  );
}

export async function main(
  model: string,
): Promise<{ readonly reviewed: readonly Reviewed[]; readonly streamed: string; readonly short: string }> {
  await using engine = await Engine.open({ model });
  const all = reviewed(engine, REVIEWS);
  // Beside these, somebody waits for an answer, and reads it as it grows.
  let streamed = '';
  let short = '';
  const question = engine.generate([{ prompt: 'The capital of France is', maxNewTokens: 8 }], { priority: 1 });
  for await (const event of question.events()) {
    if (event.type === 'result') short = event.result.text;
    else streamed += event.delta.text;
  }
  console.log(`asked in between: ${short}`);
  for (const { review, summary, label } of await all) console.log(`${label.padEnd(8)}${review} → ${summary}`);
  return { reviewed: await all, streamed, short };
}
