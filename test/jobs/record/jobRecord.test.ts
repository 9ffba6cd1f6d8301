import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { runJob } from '../../../src/api/jobs.js';
import type { RowInput } from '../../../src/Row.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { failureOf } from '../formats/support.js';
import { temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const rows = [{ prompt: 'a' }, { prompt: 'b' }];

interface Members {
  options: Record<string, unknown>;
}

/** Changes the record of an output into what another build would have written. */
function rewrite(output: string, change: (record: Members) => void): void {
  const record = JSON.parse(readFileSync(`${output}.job.json`, 'utf8')) as Members;
  change(record);
  writeFileSync(`${output}.job.json`, JSON.stringify(record));
}

describe('a query as input', () => {
  const QUERY = "sql:attach 'postgres:password=hunter2' as shop; select review as prompt from shop.reviews";
  const run = (output: string, input: string): ReturnType<typeof runJob> =>
    runJob({ engine: new StubEngine(), input: rows, identity: { input, database: null }, output, resume: true });

  test('stands in the record by its fingerprint alone, and another one is refused', async () => {
    const output = path('query.jsonl');
    await run(output, QUERY);
    expect(readFileSync(`${output}.job.json`, 'utf8')).toMatch(
      /"input": "a query of 85 characters, SHA-256 [0-9a-f]{64}"/,
    );
    expect(readFileSync(`${output}.job.json`, 'utf8')).not.toContain('hunter2');
    expect(await run(output, QUERY)).toMatchObject({ kept: 2, done: 0 });
    const error = await failureOf(run(output, `${QUERY} limit 3`));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(
      /differs .* in input \(was "a query of 85 characters, .* is "a query of 93 characters/,
    );
  });

  test('of a record that holds its text is gone on with, which takes the text out; no message shows it', async () => {
    const output = path('older.jsonl');
    await run(output, QUERY);
    rewrite(output, ({ options }) => (options['input'] = QUERY));
    expect((await failureOf(run(output, 'sql:select 1 as prompt'))).message).not.toContain('hunter2');
    expect(readFileSync(`${output}.job.json`, 'utf8')).toContain('hunter2');
    expect(await run(output, QUERY)).toMatchObject({ kept: 2, done: 0 });
    expect(readFileSync(`${output}.job.json`, 'utf8')).not.toContain('hunter2');
  });
});

describe.each(['classify', 'score'] as const)('a record of %s', (task) => {
  test('from before labels and completions got other tokens is refused, with the remedy', async () => {
    const output = path(`${task}.jsonl`);
    const answers = (given: AsyncIterable<RowInput>): AsyncGenerator<never> =>
      new StubEngine().generate(given) as unknown as AsyncGenerator<never>;
    const engine = Object.assign(new StubEngine(), { [task]: answers });
    const run = (): ReturnType<typeof runJob> => runJob({ engine, input: rows, output, resume: true, [task]: {} });
    await run();
    expect(await run()).toMatchObject({ kept: 2, done: 0 });
    rewrite(output, ({ options }) => delete options['answers']);
    const error = await failureOf(run());
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain(
      'in the version of the answers (was 1, is 2: labels and completions have other tokens); give what was given then, or another output; `overwrite: true` begins anew',
    );
  });
});
