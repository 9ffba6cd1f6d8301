// A table of CSV into a table of DuckDB, by a job that breaks off and goes on: each row is there once.
// Usage: node scripts/run-example.mjs 10-database [MODEL]; needs `npm install @duckdb/node-api`
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { Engine, InterruptedError } from 'spillway';
import { runJob } from 'spillway/jobs';

const ROWS = 40;

/** Runs the job in two parts and returns what the table says of each row. */
export async function main(model: string): Promise<readonly (readonly unknown[])[]> {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-example-'));
  const [input, database] = [join(folder, 'reviews.csv'), join(folder, 'shop.duckdb')];
  const lines = Array.from({ length: ROWS }, (_, at) => `${at},"Review ${at}: works, but loud."\n`);
  await writeFile(input, `nr,body\n${lines.join('')}`);
  await using engine = await Engine.open({ model });
  const run = async (signal?: AbortSignal): Promise<void> => {
    await runJob({
      engine,
      input,
      columns: { prompt: 'body', id: 'nr' },
      output: { table: 'summaries', database },
      resultColumns: { text: 'summary' },
      resume: true,
      generate: { maxNewTokens: 4, ...(signal && { signal }) },
    });
  };
  await run(AbortSignal.timeout(300)).catch((error: unknown) => {
    if (!(error instanceof InterruptedError)) throw error;
  });
  await run();
  const instance = await DuckDBInstance.create(database);
  const connection = await instance.connect();
  const result = await connection.run('select index, nr, summary from summaries order by index');
  const rows = await result.getRowsJson();
  connection.closeSync();
  instance.closeSync();
  console.log(`${rows.length} rows in ${database}`);
  return rows;
}
