// Texts longer than a model's context: answered in parts that the model merges, and embedded passage by passage.
// Usage: node scripts/run-example.mjs 13-long-documents [MODEL]
import { Engine, type EmbedResult, type RowResult } from 'spillway';

const REPORT = Array.from(
  { length: 120 },
  (_, day) => `Day ${day + 1}: the mill ran for ${(day * 7) % 24} hours, and ${(day * 13) % 40} bags were sold.`,
).join(' ');

export async function main(
  model: string,
): Promise<{ summary: RowResult | undefined; passages: EmbedResult | undefined }> {
  await using engine = await Engine.open({ model });
  const rows = [{ id: 'mill', prompt: REPORT }];
  let summary: RowResult | undefined;
  for await (const row of engine.generate(rows, {
    system: 'Summarize what the user says.',
    chunkTokens: 1000,
    chunkOverlap: 50,
    merge: 'Make one summary of these:\n\n{{answers}}',
    maxNewTokens: 48,
  })) {
    console.log(`${row.id}, ${row.parts?.count} parts, merged in ${row.parts?.levels} levels: ${row.text}`);
    summary = row;
  }
  let passages: EmbedResult | undefined;
  for await (const row of engine.embed(rows, { chunkTokens: 200, chunkOverlap: 40 })) {
    for (const { start, end, embedding } of row.chunks ?? [])
      console.log(`${start} to ${end}: ${embedding?.length} numbers, ${REPORT.slice(start, start + 40)}…`);
    passages = row;
  }
  return { summary, passages };
}
