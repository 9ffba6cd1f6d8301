// A table is labelled by a small model where that is sure, and by a larger one where it is not; the labels are compared
// with what people said, and each row says who answered.
// Usage: node scripts/run-example.mjs 12-cascade [MODEL]
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cascade, Engine, MemoryBudget } from 'spillway';
import { readRows, runJob, type JobSummary } from 'spillway/jobs';

const REVIEWS = `id,review,tone
1,The room was spotless and the staff were kind.,good
2,"Broke after two weeks, and nobody answers.",bad
3,We would come again at any time.,good
4,Cold soup and a rude waiter.,bad
`;

export interface Labelled {
  readonly summary: JobSummary;
  readonly rows: readonly (readonly [label: unknown, model: unknown])[];
}

export async function main(model: string): Promise<Labelled> {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-example-'));
  const [input, output] = [join(folder, 'reviews.csv'), join(folder, 'labelled.csv')];
  await writeFile(input, REVIEWS);
  // So that the example needs one model alone, the larger one is the same in float32.
  const memoryBudget = new MemoryBudget('6GiB');
  await using small = await Engine.open({ model, memoryBudget, cpuMemory: '3GiB' });
  await using large = await Engine.open({ model, memoryBudget, precision: 'float32' });
  const engine = new Cascade([
    { name: 'small', engine: small, threshold: 0.7 },
    { name: 'large', engine: large },
  ]);
  try {
    const summary = await runJob({
      engine,
      input,
      output,
      truth: 'tone',
      classify: { labels: [' good', ' bad'], promptTemplate: 'Review: {{review}}\nThe review is', labelPrior: 'N/A' },
    });
    const rows: [unknown, unknown][] = [];
    for await (const { carry = {} } of readRows(output, { carryFields: true, columns: { prompt: 'review' } })) {
      console.log(`${String(carry['review'])} ${String(carry['label'])}, says the ${String(carry['model'])} one`);
      rows.push([carry['label'], carry['model']]);
    }
    const { right = 0, rows: compared = 0 } = summary.truth ?? {};
    console.log(`${right} of ${compared} labels are those of people`);
    return { summary, rows };
  } finally {
    await rm(folder, { recursive: true });
  }
}
