// Tables in, tables out, with a job that goes on where it was: reviews of a CSV file become rows of Parquet, these are
// shortened into another Parquet file whose columns keep their types, and a file of OpenAI's Batch API is run at home.
// Usage: node scripts/run-example.mjs 05-tables [MODEL]
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine } from 'spillway';
import { runJob } from 'spillway/jobs';

const REVIEWS = `nr;stars;"What do you think?"
1;5;"Arrived early, works well."
2;1;"Broken after two days;
nobody answers."
3;4;"Good, but loud."
`;

const request = (custom_id: string, content: string): string =>
  JSON.stringify({
    custom_id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'any', messages: [{ role: 'user', content }], max_tokens: 8 },
  });

/** Runs the three jobs and returns the folder with all files. */
export async function main(model: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-example-'));
  const file = (name: string): string => join(folder, name);
  await writeFile(file('reviews.csv'), REVIEWS);
  await writeFile(
    file('batch.jsonl'),
    `${request('a', 'Say hello.')}\n${request('b', 'Say goodbye.')}\n{"custom_id":"c","url":"/v1/embeddings","body":{"input":"x"}}\n`,
  );
  await using engine = await Engine.open({ model });
  // Run again after a crash, each of them goes on: no row is lost, and none stands twice.
  const common = { engine, resume: true, generate: { maxNewTokens: 8 } };
  await runJob({
    ...common,
    input: file('reviews.csv'),
    columns: { prompt: 'What do you think?', id: 'nr' },
    output: file('labels.parquet'),
    resultColumns: { text: 'label' },
  });
  // A table that has results already needs other names for the new ones.
  const again = Object.fromEntries(
    ['finish_reason', 'error_code', 'error_message', 'prompt_tokens', 'completion_tokens'].map((name) => [
      name,
      `summary_${name}`,
    ]),
  );
  await runJob({
    ...common,
    input: file('labels.parquet'),
    columns: { prompt: 'What do you think?' },
    output: file('summaries.parquet'),
    resultColumns: { text: 'summary', ...again },
  });
  const { failed } = await runJob({
    ...common,
    input: file('batch.jsonl'),
    output: file('batch-output.jsonl'),
    errors: file('batch-errors.jsonl'),
  });
  console.log(`written: ${folder}, with ${failed} request that failed`);
  return folder;
}
