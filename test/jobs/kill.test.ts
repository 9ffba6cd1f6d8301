import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { readRows } from '../../src/jobs/input/readRows.js';
import { tries } from '../support/tries.js';
import { built } from './support/built.js';
import { compiledStub } from './support/compiledStub.js';
import { byIndex, readJournal, readResults, temporaryFolder, writeLines } from './support/files.js';

const path = temporaryFolder();
const ROWS = 2000;
const KILLS = tries(2, 20);

/**
 * A kind of files: how rows are written as input, where results are while a run is under way, and what the output says.
 */
interface Kind {
  readonly name: string;
  /** What the output is called. Default: as the input. */
  readonly output?: string;
  readonly journal?: string;
  /** What answers are held to, if they are. */
  readonly schema?: object;
  readonly write: (path: string, lines: readonly Line[]) => void | Promise<void>;
  readonly read: (path: string, lines: readonly Line[]) => Promise<readonly Outcome[]> | readonly Outcome[];
}
/** A line that is no row, or a row. */
type Line = string | { readonly id: string; readonly prompt: string };
interface Outcome {
  readonly id: string | number;
  readonly text: string;
  readonly error: string | undefined;
}

function writeCsv(file: string, lines: readonly Line[]): void {
  writeFileSync(
    file,
    `id,prompt\n${lines.map((line) => (typeof line === 'string' ? `${line}\n` : `"${line.id}",${line.prompt}\n`)).join('')}`,
  );
}

function readCsv(file: string, lines: readonly Line[]): readonly Outcome[] {
  const rows = parse<Record<string, string>>(readFileSync(file), { columns: true });
  return rows.map(({ id = '', text = '', error_code }, at) => ({
    id: typeof lines[at] === 'string' ? at + 1 : id,
    text,
    error: error_code === '' ? undefined : error_code,
  }));
}

const KINDS: readonly Kind[] = [
  {
    name: 'rows.jsonl',
    write: writeLines,
    read: (file) => byIndex(readResults(file)).map(({ id, text, error }) => ({ id, text, error: error?.code })),
  },
  {
    name: 'rows.csv',
    journal: '.rows.jsonl',
    write: writeCsv,
    read: readCsv,
  },
  {
    name: 'properties.csv',
    journal: '.rows.jsonl',
    schema: { type: 'object', properties: { said: { type: 'string' }, characters: { type: 'integer' } } },
    write: writeCsv,
    read: (file, lines) => {
      const rows = parse<Record<string, string>>(readFileSync(file), { columns: true });
      return rows.map(({ id = '', said = '', characters, text, error_code }, at) => {
        const whole = text === '' && characters === (error_code === '' ? String(said.length) : '');
        return {
          id: typeof lines[at] === 'string' ? at + 1 : id,
          text: whole ? said : 'not what was answered',
          error: error_code === '' ? undefined : error_code,
        };
      });
    },
  },
  {
    name: 'rows.parquet',
    journal: '.rows.jsonl',
    write: (file, lines) => {
      const rows = lines.map((line) => (typeof line === 'string' ? { id: null, prompt: null } : line));
      const column = (name: 'id' | 'prompt'): { name: string; data: (string | null)[]; type: 'STRING' } => ({
        name,
        data: rows.map((row) => row[name]),
        type: 'STRING',
      });
      writeFileSync(
        file,
        Buffer.from(parquetWriteBuffer({ columnData: [column('id'), column('prompt')], rowGroupSize: 300 })),
      );
    },
    read: async (file, lines) => {
      const outcomes: Outcome[] = [];
      for await (const { carry = {} } of readRows(file, { carryFields: true, columns: { prompt: 'prompt' } })) {
        const at = outcomes.length;
        const error = carry['error_code'] as string | null;
        outcomes.push({
          id: typeof lines[at] === 'string' ? at + 1 : String(carry['id']),
          text: (carry['text'] as string | null) ?? '',
          error: error === 'no-prompt' ? 'invalid-row' : (error ?? undefined),
        });
      }
      return outcomes;
    },
  },
  {
    // What comes once: rows are known again by where they stand, and by their ids. A table of another database by
    // another file: nightly/sql.mjs.
    name: 'query.sql',
    output: 'query.csv',
    journal: '.rows.jsonl',
    write: (file, lines) => {
      const rows = lines.map((line) =>
        typeof line === 'string' ? '(null, null)' : `('${line.id}', '${line.prompt}')`,
      );
      writeFileSync(
        file,
        `create table asked (id varchar, prompt varchar); insert into asked values ${rows.join(', ')}; select * from asked order by rowid`,
      );
    },
    read: (file, lines) =>
      readCsv(file, lines).map((outcome) => ({
        ...outcome,
        error: outcome.error === 'no-prompt' ? 'invalid-row' : outcome.error,
      })),
  },
  {
    name: 'requests.jsonl',
    journal: '.rows.jsonl',
    write: (file, lines) =>
      writeLines(
        file,
        lines.map((line) =>
          typeof line === 'string'
            ? line
            : { custom_id: line.id, method: 'POST', url: '/v1/completions', body: { prompt: line.prompt } },
        ),
      ),
    read: (file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line, at) => {
          const {
            custom_id: id,
            response: { body },
          } = JSON.parse(line) as {
            custom_id: string | null;
            response: { body: { choices?: { text: string }[]; error?: { code: string } } };
          };
          return { id: id ?? at + 1, text: body.choices?.[0]?.text ?? '', error: body.error?.code };
        }),
  },
];

test.each(KINDS)(
  `$name: kill -9 at ${KILLS} random moments, then one run to the end: no row lost, none doubled`,
  async ({ name, output: outputName = name, journal = '', schema, write, read }) => {
    const [input, out, stub] = [path(`in-${name}`), path(`out-${outputName}`), compiledStub(path('stubEngine.mjs'))];
    const output = `${out}${journal}`;
    const lines: Line[] = Array.from({ length: ROWS }, (_, at) =>
      at % 100 === 99 ? 'broken' : { id: `row-${at}`, prompt: `prompt ${at} `.repeat(at % 40) + 'end' },
    );
    await write(input, lines);
    const script = fileURLToPath(new URL('./support/killableJob.mjs', import.meta.url));
    const jobs = built('jobs/runJob.js');
    const start = (order: string): ChildProcess =>
      spawn(process.execPath, [script, jobs, stub, input, out, order, ...(schema ? [JSON.stringify(schema)] : [])], {
        stdio: ['ignore', 'inherit', 'inherit'],
      });
    const size = (): number => (existsSync(output) ? statSync(output).size : 0);

    for (let kill = 0; kill < KILLS; kill += 1) {
      const before = size();
      const child = start(kill % 2 === 0 ? 'completion' : 'input');
      const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
      // One kill in five comes while the job begins or reads what is there; the others while it writes.
      if (kill % 5 === 1) await sleep(Math.random() * 150);
      else {
        while (size() <= before && child.exitCode === null) await sleep(1);
        await sleep(Math.random() * 60);
      }
      child.kill('SIGKILL');
      // Where others have the processors, a run may be through before its kill.
      const [code, signal] = await ended;
      expect(signal ?? code).toBe(signal === null ? 0 : 'SIGKILL');
      if (existsSync(output)) {
        const content = readFileSync(output);
        // What a crash of the machine could do besides: a last line that is cut anywhere. (A journal's first line was
        // on the disk before the run was recorded.)
        const least = journal === '' ? 0 : content.indexOf(0x0a) + 1;
        if (kill % 3 === 2 && content.length > least + 3)
          writeFileSync(
            output,
            content.subarray(0, Math.max(least, content.length - 1 - Math.floor(Math.random() * 60))),
          );
      }
    }

    const [code] = (await once(start('completion'), 'exit')) as [number | null];
    expect(code).toBe(0);
    expect(byIndex(readJournal(output)).map(({ index }) => index)).toEqual(Array.from({ length: ROWS }, (_, at) => at));
    const results = await read(out, lines);
    expect(results).toHaveLength(ROWS);
    for (const [at, line] of lines.entries()) {
      const expected =
        typeof line === 'string'
          ? { id: at + 1, text: '', error: expect.stringMatching(/^invalid-(json|row)$/) }
          : { id: line.id, text: line.prompt.toUpperCase(), error: undefined };
      expect(results[at]).toEqual(expected);
    }
    expect(existsSync(`${out}.lock`)).toBe(false);
  },
);
