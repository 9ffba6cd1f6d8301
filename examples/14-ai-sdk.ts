// The AI SDK (`npm install ai @ai-sdk/provider`) with models of this process: calls that run at once join one run, and
// a batch goes on after the process has ended. Usage: node scripts/run-example.mjs 14-ai-sdk [MODEL]
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  embedMany,
  experimental_decide as decide,
  experimental_getBatchResults as getBatchResults,
  experimental_getBatchStatus as getBatchStatus,
  experimental_startBatch as startBatch,
  generateText,
  streamText,
} from 'ai';
import { createSpillway } from 'spillway/ai-sdk';

const CITIES = ['Bern', 'Oslo', 'Kyoto'];

/** Asks in all these ways, and returns what came of it. */
export async function main(model: string): Promise<{ texts: string[]; batched: string[]; urgent: number }> {
  const batches = await mkdtemp(join(tmpdir(), 'spillway-example-'));
  await using spillway = createSpillway({ batches });
  const asked = { model: spillway(model), maxOutputTokens: 24 };
  const answers = await Promise.all(
    CITIES.map((city) => generateText({ ...asked, prompt: `Name one thing to see in ${city}.` })),
  );
  const texts = answers.map(({ text }) => text);
  console.log(texts.join('\n'));
  let streamed = '';
  for await (const piece of streamText({ ...asked, prompt: 'Count to five.' }).textStream) streamed += piece;
  console.log(streamed);
  const { embeddings } = await embedMany({ model: spillway.embeddingModel(model), values: CITIES });
  console.log(`${embeddings.length} embeddings of ${embeddings[0]?.length} numbers`);
  const { answers: decided } = await decide({
    model: spillway.decisionModel(model),
    state: 'My train leaves in ten minutes, and the ticket is not there.',
    questions: { urgent: { type: 'boolean', instructions: 'Is it urgent?' } },
  });
  console.log(`urgent: ${decided.urgent.probability.toFixed(3)}`);
  const batch = await startBatch({
    provider: spillway,
    requests: CITIES.map((city) => ({
      id: city,
      type: 'text' as const,
      model,
      prompt: `Where is ${city}?`,
      maxOutputTokens: 24,
    })),
  });
  while ((await getBatchStatus({ provider: spillway, batch })).status === 'pending') await sleep(100);
  const batched: string[] = [];
  for await (const item of getBatchResults({ provider: spillway, batch }))
    if (item.status === 'succeeded') batched.push(`${item.id}: ${'text' in item ? item.text : ''}`);
  console.log(batched.join('\n'));
  return { texts, batched, urgent: decided.urgent.probability };
}
