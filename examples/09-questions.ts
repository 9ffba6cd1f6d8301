// Several questions about each text, which is read once for all of them, and how sure the model was of its answers.
// Usage: node scripts/run-example.mjs 09-questions [MODEL]
import { Engine, type Question, type RowResult } from 'spillway';

const REVIEWS = [
  'The room was spotless and the staff were kind.',
  'Broke after two weeks, and nobody answers.',
  'Good soup, but we waited for an hour.',
];

const QUESTIONS: readonly Question[] = [
  { name: 'tone', text: 'Is the review positive or negative?', choices: ['positive', 'negative'] },
  { name: 'stars', text: 'How many stars, from 1 to 5?', schema: { type: 'integer', minimum: 1, maximum: 5 } },
  { name: 'why', text: 'It is {{answers.tone}}. Say why in a few words.', maxNewTokens: 12 },
];

export async function main(model: string): Promise<RowResult[]> {
  await using engine = await Engine.open({ model });
  const rows = REVIEWS.map((prompt) => ({ prompt }));
  const results: RowResult[] = [];
  for await (const row of engine.ask(rows, QUESTIONS)) {
    for (const [name, { text, confidence = NaN }] of Object.entries(row.answers ?? {}))
      console.log(`${name}: ${text} (${(100 * confidence).toFixed(0)}% sure)`);
    results.push(row);
  }
  return results;
}
