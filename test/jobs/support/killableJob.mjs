// A job in a process of its own, to be killed: node killableJob.mjs JOBS STUB INPUT OUTPUT ORDER [SCHEMA [SHARD]]
// JOBS is the built runJob.js, STUB the compiled stub engine. With a JSON Schema answers are objects that say what
// was answered. SHARD is K/N. A row takes up to SPILLWAY_ROW_MILLISECONDS, default 10.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [jobs, stub, input, output, order, schema, dealt] = process.argv.slice(2);
const { runJob } = await import(pathToFileURL(jobs).href);
const { readSql } = await import(new URL('input/readSql.js', pathToFileURL(jobs)).href);
const { StubEngine } = await import(pathToFileURL(stub).href);

const answer = (prompt) => {
  const value = { said: prompt.toUpperCase(), characters: prompt.length };
  return { text: JSON.stringify(value), value };
};
const engine = new StubEngine({
  width: 6,
  delay: () => Math.random() * Number(process.env.SPILLWAY_ROW_MILLISECONDS ?? 10),
  ...(schema && { answer }),
});
const held = schema && { responseFormat: { type: 'json_schema', schema: JSON.parse(schema) } };
const [index, count] = dealt?.split('/').map(Number) ?? [];
await runJob({
  engine,
  input: input.endsWith('.sql') ? readSql(readFileSync(input, 'utf8'), { carryFields: true }) : input,
  output,
  ...(dealt && { shard: { index, count } }),
  resume: true,
  generate: { order, ...held },
});
