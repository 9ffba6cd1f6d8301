import { expect, test } from '@jest/globals';
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
    for (const extension of format.extensions) expect(formatOfName(`rows.${extension}`)).toBe(format);
  }
  expect(chosenFormat('auto')).toBeUndefined();
});

test('a file whose name says nothing is told by its beginning; one of lines of JSON may be requests', () => {
  const request = '{"custom_id":"1","url":"/v1/chat/completions","body":{}}\n';
  expect(formatOfStart('PAR1...', undefined)?.name).toBe('parquet');
  expect(formatOfStart(request, undefined)?.name).toBe('openai-batch');
  expect(formatOfStart(request, jsonl)?.name).toBe('openai-batch');
  expect(formatOfStart('PAR1...', jsonl)).toBeUndefined();
  expect(formatOfStart('{"prompt":"a"}\n', undefined)).toBeUndefined();
});
