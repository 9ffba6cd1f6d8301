import { Readable } from 'node:stream';
import { describe, expect, jest, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { CsvRecords, type CsvRecord } from '../../../src/jobs/formats/csvRecords.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { collect } from '../support/files.js';
import { jobsOnFiles } from './support.js';
import { cpuSeconds } from '../../model/support/expectBounded.js';

const { job } = jobsOnFiles();

async function* pieces(text: string, length: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += length) yield text.slice(at, at + length);
}

const recordsOf = (text: string, delimiter = ',', length = text.length, most = 2 ** 20): Promise<CsvRecord[]> =>
  collect(new CsvRecords(pieces(text, Math.max(1, length)), delimiter, most, 1000));

/** Records as `first-last: values`, those with a problem with a `!`. */
const told = (records: readonly CsvRecord[]): readonly string[] =>
  records.map(
    ({ values, first, last, problem }) => `${first}-${last}${problem === undefined ? '' : '!'}: ${values.join('|')}`,
  );

describe('a quote that is none', () => {
  test.each<[string, string, readonly string[]]>([
    ['nothing closes it', 'a,b\n"5 pipe,1\nx,2\ny,3\n', ['1-1: a|b', '2-2!: "5 pipe|1', '3-3: x|2', '4-4: y|3']],
    ['nothing closes it, at the end', 'a,b\nx,2\n1,"y', ['1-1: a|b', '2-2: x|2', '3-3!: 1|"y']],
    [
      'the quotes of another line seem to, and all between are rows',
      'a,b\n"5 pipe,1\nx,2\n"y",3\nz,4\n',
      ['1-1: a|b', '2-2!: "5 pipe|1', '3-3: x|2', '4-4: y|3', '5-5: z|4'],
    ],
    [
      'the text goes over lines that are no rows: they are its own',
      'a,b,c\n1,"He said:\n"Yes", I think.\nThen",x\n2,y,z\n',
      ['1-1: a|b|c', '2-3!: 1|"He said:\n"Yes"| I think.', '4-4: Then"|x', '5-5: 2|y|z'],
    ],
    ['text behind it', 'a,b\n"x"y,1\n2,3\n', ['1-1: a|b', '2-2!: "x"y|1', '3-3: 2|3']],
    ['text behind it, several lines on', 'a,b\n"x\ny\nz"t,1\n2,3', ['1-1: a|b', '2-4!: "x\ny\nz"t|1', '5-5: 2|3']],
    ['within a value it is text', 'a,b\n5" pipe,say "hi"\n', ['1-1: a|b', '2-2: 5" pipe|say "hi"']],
    ['blanks behind it', 'a,b\n"x"  ,"y" \n', ['1-1: a|b', '2-2: x|y']],
    [
      'values of several lines',
      'a,b\n"x\ny","""1"""\r\n"\r",2\r3,4',
      ['1-1: a|b', '2-3: x\ny|"1"', '4-5: \r|2', '6-6: 3|4'],
    ],
    ['blank lines', '\n\na,b\n\n\r\n1,2\n\n', ['3-3: a|b', '6-6: 1|2']],
    [
      'a carriage return is looked for before where one was found',
      'a,b\r"x\rp,q\rr,s"t\r1,2\r',
      ['1-1: a|b', '2-2!: "x', '3-3: p|q', '4-4: r|s"t', '5-5: 1|2'],
    ],
  ])('%s', async (_, text, expected) => {
    for (let length = 1; length <= text.length; length += 1)
      expect([length, told(await recordsOf(text, ',', length))]).toEqual([length, expected]);
  });

  test('is told with its lines, and in a file its rows stay', async () => {
    const text = 'id\tprompt\n1\t"open\n2\tx\n3\t5" pipe\n';
    const rows = await collect(readRows(Readable.from([text]), { format: 'tsv', carryFields: true }));
    expect(rows).toEqual([
      {
        id: 1,
        duplicate: false,
        carry: { id: '1', prompt: '"open' },
        error: {
          code: 'invalid-row',
          message:
            'line 2: found a value that begins with a quote which nothing closes, expected one that is quoted as a whole, with quotes within it written twice',
        },
      },
      { id: '2', prompt: 'x', carry: { id: '2', prompt: 'x' } },
      { id: '3', prompt: '5" pipe', carry: { id: '3', prompt: '5" pipe' } },
    ]);
    const [, wrong] = await recordsOf('a,b,c\n1,"He said:\n"Yes", I think.\n2,y,z\n');
    expect(wrong?.problem?.message).toMatch(
      /^lines 2 to 3: found a value with more after its closing quote, in line 3, expected/,
    );
    const { text: out, summary } = await job('stray.csv', 'id,prompt\n1,"a\n2,b\n', 'out.csv');
    expect(summary).toMatchObject({ rows: 2, failed: 1 });
    expect(out).toMatch(/\n1,"""a",,error,invalid-row,"line 2: .*\n2,b,B,stop,,,1,1\n$/);
  });

  test('a header with one is refused with its line; with one within a name it is read', async () => {
    expect(await collect(readRows(Readable.from(['id;5" pipe;prompt\n1;2;x\n']), { format: 'csv' }))).toEqual([
      { id: '1', prompt: 'x' },
    ]);
  });
});

describe('what is longer than may be held', () => {
  test.each<[string, string, readonly string[]]>([
    ['a line', `a,b\n${'x'.repeat(50)},1\n2,3\n`, ['1-1: a|b', '2-2!: ', '3-3: 2|3']],
    ['the last line', `a,b\n2,3\n${'x'.repeat(50)}`, ['1-1: a|b', '2-2: 2|3', '3-3!: ']],
    ['a value in quotes', `a,b\n"${'x'.repeat(50)}",1\n2,3\n`, ['1-1: a|b', '2-2!: ', '3-3: 2|3']],
    [
      'what a stray quote would swallow',
      `a,b\n"x,1\n${'y,2\n'.repeat(20)}`,
      ['1-1: a|b', '2-2!: "x|1', ...Array.from({ length: 20 }, (_, at) => `${at + 3}-${at + 3}: y|2`)],
    ],
  ])('%s', async (_, text, expected) => {
    for (const length of [1, 3, 7, 40, 1000])
      expect([length, told(await recordsOf(text, ',', length, 24))]).toEqual([length, expected]);
  });

  test('others have their turn while short lines behind an open quote are read', async () => {
    // Each look at the clock finds a millisecond more: slices end after so many, on any processor.
    let now = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => (now += 1));
    let [turns, reads] = [0, true];
    const count = (): void => {
      turns += 1;
      if (reads) setImmediate(count);
    };
    setImmediate(count);
    const records = await recordsOf(`a,b\n1,"x\n${'y\n'.repeat(100_000)}`, ',', 2 ** 20);
    reads = false;
    clock.mockRestore();
    expect(records).toHaveLength(100_002);
    expect(turns).toBeGreaterThan(1);
  });

  test('no line is gone through many times, whatever its quotes', async () => {
    const lines = 40_000;
    for (const line of ['"x,1\n', '"",1\n', 'a,"\n', '"""",1\n', 'x"y,1\n']) {
      const start = process.cpuUsage();
      const records = await recordsOf(`a,b\n${line.repeat(lines)}`, ',', 65_536);
      expect(records.at(-1)?.last).toBeLessThanOrEqual(lines + 1);
      expect(cpuSeconds(start)).toBeLessThan(5);
    }
  });
});

test('quotes of a long value are parted nowhere', async () => {
  for (const blanks of [0, 1, 2, 3]) {
    const value = `${' '.repeat(2 ** 16 - 3 + blanks)}${'"'.repeat(9)}x${'"'.repeat(2 ** 16)}`;
    const [record] = await recordsOf(`"${value.replaceAll('"', '""')}",z\n`);
    expect(record?.values[0] === value && record.values[1] === 'z').toBe(true);
  }
});

describe('whatever the text', () => {
  const text = fc.string({ unit: fc.constantFrom('"', '"', ',', '\n', '\r', ' ', 'a', 'b'), maxLength: 40 });

  test('chunks make no difference, and every line that is not blank is in one record', async () => {
    await fc.assert(
      fc.asyncProperty(text, fc.nat({ max: 10 }), async (content, length) => {
        const records = await recordsOf(content);
        expect(await recordsOf(content, ',', length + 1)).toEqual(records);
        const covered = new Set(
          records.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, at) => first + at)),
        );
        expect(covered.size).toBe(records.reduce((sum, { first, last }) => sum + last - first + 1, 0));
        const lines = content.split(/\r\n|\n|\r/);
        for (const [at, line] of lines.entries()) if (line !== '') expect(covered).toContain(at + 1);
      }),
      { numRuns: 500 },
    );
  });

  test('what another reader takes strictly is read as it does', async () => {
    await fc.assert(
      fc.asyncProperty(text, async (content) => {
        let strict: string[][];
        try {
          strict = parse(content, {
            record_delimiter: ['\r\n', '\n', '\r'],
            relax_column_count: true,
            skip_empty_lines: true,
          });
        } catch {
          return;
        }
        const records = await recordsOf(content);
        expect(records.map(({ values }) => values)).toEqual(strict);
        expect(records.filter(({ problem }) => problem !== undefined)).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
