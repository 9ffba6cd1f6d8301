import { writeFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { checkJobInput } from '../../../src/jobs/input/JobInput.js';
import { peekRows } from '../../../src/jobs/input/peekRows.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { readSql } from '../../../src/jobs/input/readSql.js';
import { jobFormats } from '../../../src/jobs/jobFormats.js';
import type { JobOptions } from '../../../src/jobs/JobOptions.js';
import { failureOf } from '../formats/support.js';
import { collect, temporaryFolder } from '../support/files.js';

const path = temporaryFolder();
let names = 0;

const file = (name: string, content: string): string => {
  names += 1;
  writeFileSync(path(`${names}-${name}`), content);
  return path(`${names}-${name}`);
};

const formatOf = async (name: string, content: string): Promise<string> =>
  (await jobFormats({ input: file(name, content), output: path('out.jsonl') })).input.format.name;

describe('JSON that is not one object a line is one error that says so', () => {
  test.each([
    ['an array over several lines', '[\n  {"prompt":"a"},\n  {"prompt":"b"}\n]\n', "jq -c '.[]'"],
    ['one that begins with a row', '[{"prompt":"a"},\n{"prompt":"b"}]\n', "jq -c '.[]'"],
    ['one in one line', '\ufeff[{"prompt":"a"},{"prompt":"b"}]', "jq -c '.[]'"],
    ['an object over several lines', '\n{\n  "prompt": "a"\n}\n', 'jq -c .'],
  ])('%s', async (_, content, remedy) => {
    for (const name of ['rows.jsonl', 'rows.json', 'rows']) {
      const error = await failureOf(formatOf(name, content));
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toContain(remedy);
    }
    const [row] = await collect(readRows(Readable.from([content])));
    if (!content.includes(']\n') || content.startsWith('[')) expect(row).toHaveProperty('error');
  });

  test.each(['[INST] Hello\nmore\n', '[1,2]\n{"prompt":"a"}\n', '{"prompt":"a"}\n[{"a":1}]\n', '{"prompt":"a"'])(
    'rows are left alone: %j',
    async (content) => expect(await formatOf('rows.jsonl', content)).toBe('jsonl'),
  );
});

describe('requests are told by several lines', () => {
  const request = '{"custom_id":"1","url":"/v1/completions","body":{"prompt":"x"}}\n';

  test.each([
    ['an odd first line', `{"custom_id": broken\n${request}`, 'openai-batch'],
    ['an odd second line', `${request}oops\n`, 'openai-batch'],
    ['no request', '{"prompt":"x"}\noops\n', 'jsonl'],
  ])('%s', async (_, content, format) => expect(await formatOf('in.jsonl', content)).toBe(format));

  test.each([`{"prompt":"x"}\n${request}`, `${request}{"prompt":"x"}\n`])('mixed is refused: %j', async (content) => {
    const error = await failureOf(formatOf('in.jsonl', content));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain('`inputFormat` says which one, openai-batch or jsonl');
  });
});

describe("a template's misspelt field is told before anything slow is done", () => {
  const check = async (input: string, promptTemplate: string, more: Partial<JobOptions> = {}): Promise<void> => {
    const options = { input, output: path('out.jsonl'), generate: { promptTemplate }, ...more };
    await checkJobInput(options, await jobFormats(options));
  };

  test.each([
    ['rows.csv', 'title,body\na,b\n', 'the columns of'],
    ['rows.tsv', 'title\tbody\n', 'the columns of'],
    ['rows.jsonl', '{"title":"a"}\nbroken\n{"title":"a","body":"b","other":null}\n', 'the first 2 rows of'],
  ])('%s', async (name, content, where) => {
    const input = file(name, content);
    await check(input, '{{title}} {{body}}');
    const error = await failureOf(check(input, '{{title}} {{bdy}}'));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain(`promptTemplate: found the field "bdy", which ${where} ${input} do not have`);
    expect(error.message).toContain('(did you mean body?)');
  });

  test('one that may be missing, of a table', async () => {
    const table = file('rows.csv', 'title,body\na,b\n');
    for (const mark of ['?', ':none']) {
      await check(table, `{{title}} {{region${mark}}}`);
      expect((await failureOf(check(table, `{{bdy${mark}}}`))).message).toContain('(did you mean body?)');
      await check(file('rows.jsonl', '{"title":"a","body":"b"}\n'), `{{bdy${mark}}}`);
    }
  });

  test('names that columns give are known; a file without a row says nothing', async () => {
    await check(file('rows.csv', 'title,body\na,b\n'), '{{prompt}}', { columns: { prompt: 'body' } });
    await check(file('rows.jsonl', ''), '{{anything}}');
    await check(file('rows.jsonl', 'broken\n'), '{{anything}}');
  });

  test('of a query, too, as is one that cannot be parsed; all rows come', async () => {
    const rows = readSql('select range as nr, 1 as body from range(3)', { templated: true });
    expect(await collect(await peekRows(rows, '{{body}}'))).toHaveLength(3);
    const rest = await peekRows(readSql('select 1 as body', { templated: true }), '{{body}} {{region?}}');
    expect(await collect(rest)).toHaveLength(1);
    const wrong = readSql('select 1 as body', { templated: true });
    expect((await failureOf(peekRows(wrong, '{{bdy}}'))).message).toContain('(did you mean body?)');
    await wrong.return();
    expect((await failureOf(peekRows(readSql('selekt 1')))).message).toContain('the query failed');
  });
});
