// Reviews told apart, completions ranked, texts embedded: what asks a model for no text.
// Usage: node scripts/run-example.mjs 06-classify [MODEL]
import { Engine, type ClassifyResult, type EmbedResult } from 'spillway';

const REVIEWS = [
  'The room was spotless and the staff were kind.',
  'Broke after two weeks, and nobody answers.',
  'Good soup, but we waited for an hour.',
];

export async function main(
  model: string,
): Promise<{ readonly labels: ClassifyResult[]; readonly best: string; readonly embeddings: EmbedResult[] }> {
  await using engine = await Engine.open({ model });
  const labels: ClassifyResult[] = [];
  // What reviews have in common is computed once, and each review once for all labels. The prior is what the labels are
  // worth under a review that says nothing.
  const options = {
    labels: [' positive', ' negative'],
    labelPrior: 'N/A',
    promptTemplate: 'Review: {{text}}\nThe sentiment of this review is',
  };
  for await (const row of engine.classify(
    REVIEWS.map((text) => ({ fields: { text } })),
    options,
  )) {
    console.log(`${row.label ?? ''} ${(100 * (row.probability ?? NaN)).toFixed(0)}%: ${REVIEWS[row.index] ?? ''}`);
    labels.push(row);
  }

  const completions = [' Paris.', ' a banana.', ' in the north.'];
  let best = '';
  for await (const { scores = [] } of engine.score([{ prompt: 'The capital of France is', completions }])) {
    best =
      completions[scores.findIndex(({ logprob }) => logprob === Math.max(...scores.map((score) => score.logprob)))] ??
      '';
    console.log(`The capital of France is${best}`);
  }

  const embeddings: EmbedResult[] = [];
  for await (const row of engine.embed(
    REVIEWS.map((prompt) => ({ prompt })),
    { pooling: 'mean', dimensions: 64 },
  ))
    embeddings.push(row);
  return { labels, best, embeddings };
}
