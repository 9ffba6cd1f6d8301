import { expect, test } from '@jest/globals';
import { UsageError } from '../../../src/errors/UsageError.js';
import { csv } from '../../../src/jobs/formats/csv.js';
import { inputFormat, jobFormats } from '../../../src/jobs/jobFormats.js';
import {
  chosenFormat,
  FORMAT_NAMES,
  formatOfName,
  formatOfStart,
  ROW_FORMATS,
} from '../../../src/jobs/formats/rowFormats.js';
import { jsonl } from '../../../src/jobs/formats/jsonl.js';

test('a format is chosen by the name that it has, or by an extension that no other has', () => {
  expect(FORMAT_NAMES).toEqual(['auto', ...ROW_FORMATS.map(({ name }) => name)]);
  for (const format of ROW_FORMATS) {
    expect(chosenFormat(format.name as (typeof FORMAT_NAMES)[number])).toBe(format);
    for (const extension of format.extensions) expect(formatOfName(`rows.${extension}`, 'input')).toBe(format);
  }
  expect(chosenFormat('auto')).toBeUndefined();
  for (const name of ['rows', 'rows.log', 'rows.2', 'xlsx', 'a.xlsx/rows'])
    expect(formatOfName(name, 'output')).toBeUndefined();
});

test('a name of another format is refused, which would be taken for lines of JSON, unless a format is given', async () => {
  const jobOf = (output: string, more: object = {}): ReturnType<typeof jobFormats> =>
    jobFormats({ input: [], output, ...more });
  await expect(jobOf('rows.XLSX')).rejects.toThrow(
    new UsageError(
      'output: found rows.XLSX, a name of another format, expected one with .jsonl, .txt, .csv, .tsv or .parquet, or `outputFormat`, which says what the file is whatever its name',
    ),
  );
  await expect(jobOf('rows.arrow.gz')).rejects.toThrow('output: found rows.arrow, a name of another format');
  await expect(jobOf('rows.jsonl', { errors: 'rows.orc' })).rejects.toThrow(
    new UsageError(
      'errors: found rows.orc, a name of another format, expected one with .jsonl, .csv, .tsv or .parquet',
    ),
  );
  await expect(inputFormat('rows.ods', 'auto')).rejects.toThrow('input: found rows.ods, a name of another format');
  expect((await jobOf('rows.xlsx', { outputFormat: 'csv' })).output.format).toBe(csv);
});

test('a delimiter that no file has is refused', async () => {
  const formats = (input: string, output: string, delimiter: string): ReturnType<typeof jobFormats> =>
    jobFormats({ input: [], inputFormat: input as 'csv', output, delimiter });
  await expect(formats('jsonl', 'a.parquet', ';')).rejects.toThrow(
    new UsageError('delimiter: found ";" beside files of jsonl and parquet, expected one of csv'),
  );
  await expect(formats('tsv', 'a.jsonl', ';')).rejects.toThrow('delimiter: found ";" beside files of tsv and jsonl');
  for (const [input, output, delimiter] of [
    ['csv', 'a.jsonl', ';'],
    ['jsonl', 'a.csv', ';'],
    ['jsonl', 'a.tsv', ';'],
    ['tsv', 'a.jsonl', '\t'],
  ] as const)
    await expect(formats(input, output, delimiter)).resolves.toBeDefined();
});

test('a file whose name says nothing is told by its beginning; one of lines of JSON may be requests', () => {
  const request = '{"custom_id":"1","url":"/v1/chat/completions","body":{}}\n';
  expect(formatOfStart('PAR1...', undefined)?.name).toBe('parquet');
  expect(formatOfStart(request, undefined)?.name).toBe('openai-batch');
  expect(formatOfStart(request, jsonl)?.name).toBe('openai-batch');
  expect(formatOfStart('PAR1...', jsonl)).toBeUndefined();
  expect(formatOfStart('{"prompt":"a"}\n', undefined)).toBeUndefined();
});
