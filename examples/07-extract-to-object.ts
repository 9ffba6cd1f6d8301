// Extraction to a typed object: every answer is JSON of the schema's form, and the compiler knows its fields. Usage: node scripts/run-example.mjs 07-extract-to-object [MODEL]
import { Engine, type Row } from 'spillway';
import { z } from 'zod';

const NOTES = ['Anna Meier, 34, called from Bern about her invoice.', 'Bob (7) has lost his ticket in Paris.', 'Mrs Ito, who is 61, asks for a room in Kyoto.'];

const Person = z.object({ name: z.string().max(24), age: z.int().min(0).max(120), topic: z.enum(['invoice', 'ticket', 'room']) });

/** Runs the extraction and returns the people that it found. */
export async function main(model: string): Promise<z.infer<typeof Person>[]> {
  await using engine = await Engine.open({ model });
  const people: z.infer<typeof Person>[] = [];
  const rows: Row[] = NOTES.map((content) => ({ messages: [{ role: 'user', content }] }));
  // Told to the model, the schema is a part of the prompt that all rows share.
  for await (const { id, value, error } of engine.generate(rows, { schema: Person, schemaInPrompt: true, system: 'Extract what the note says.', maxNewTokens: 96 })) {
    if (value === undefined) console.log(`${id}: ${error?.message}`);
    else {
      people.push(value);
      console.log(`${id}: ${value.name}, ${value.age}, ${value.topic}`);
    }
  }
  return people;
}
