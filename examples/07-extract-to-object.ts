// Extraction to a typed object: every answer is JSON of the schema's form, and the compiler knows its fields; then over
// a table, which gets a column for each field. Usage: node scripts/run-example.mjs 07-extract-to-object [MODEL]
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, type Row } from 'spillway';
import { runJob } from 'spillway/jobs';
import { z } from 'zod';

const NOTES = [
  'Anna Meier, 34, called from Bern about her invoice.',
  'Bob (7) has lost his ticket in Paris.',
  'Mrs Ito, who is 61, asks for a room in Kyoto.',
];

const Person = z.object({
  name: z.string().max(24),
  age: z.int().min(0).max(120),
  topic: z.enum(['invoice', 'ticket', 'room']),
});

/** Runs the extraction and returns the people that it found, and the table of them. */
export async function main(model: string): Promise<{ people: z.infer<typeof Person>[]; table: string }> {
  await using engine = await Engine.open({ model });
  const people: z.infer<typeof Person>[] = [];
  const rows: Row[] = NOTES.map((content) => ({ messages: [{ role: 'user', content }] }));
  // Told to the model, the schema is a part of the prompt that all rows share.
  const asked = { schema: Person, schemaInPrompt: true, system: 'Extract what the note says.', maxNewTokens: 96 };
  for await (const { id, value, error } of engine.generate(rows, asked)) {
    if (value === undefined) console.log(`${id}: ${error?.message}`);
    else {
      people.push(value);
      console.log(`${id}: ${value.name}, ${value.age}, ${value.topic}`);
    }
  }
  // From table to table, in a job that goes on where it was: beside the column of notes come `name`, `age` and `topic`.
  const folder = await mkdtemp(join(tmpdir(), 'spillway-example-'));
  await writeFile(join(folder, 'notes.csv'), `note\n${NOTES.map((note) => `"${note}"\n`).join('')}`);
  const table = join(folder, 'people.csv');
  await runJob({
    engine,
    input: join(folder, 'notes.csv'),
    output: table,
    resume: true,
    generate: { ...asked, promptTemplate: '{{note}}' },
  });
  console.log(`written: ${table}`);
  return { people, table };
}
