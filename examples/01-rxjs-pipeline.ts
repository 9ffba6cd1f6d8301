// Prompts and answers as Observables: questions are made, answered and sorted in one RxJS pipeline.
// Usage: node scripts/run-example.mjs 01-rxjs-pipeline [MODEL]
import { from, lastValueFrom, map, tap, toArray, type Observable } from 'rxjs';
import { Engine, offloadGenerate, type Row, type RowResult } from 'spillway';

const REVIEWS = [
  'The room was spotless and the staff were kind.',
  'Broke after two weeks, and nobody answers.',
  'Good soup, but we waited for an hour.',
];

/** Asks for the sentiment of each review. Nothing runs until it is subscribed to, and unsubscribing ends the run. */
export function sentiments(engine: Engine, reviews$: Observable<string>): Observable<RowResult> {
  return reviews$.pipe(
    map((review): Row => ({
      messages: [{ role: 'user', content: `Is this review positive or negative? Answer with one word.\n\n${review}` }],
    })),
    offloadGenerate(engine, { maxNewTokens: 8 }),
  );
}

export async function main(model: string): Promise<readonly RowResult[]> {
  await using engine = await Engine.open({ model });
  return await lastValueFrom(
    sentiments(engine, from(REVIEWS)).pipe(
      tap(({ id, text }) => {
        console.log(`${id}: ${text.trim()}`);
      }),
      toArray(),
    ),
  );
}
