// An ETL job: rows are read from a stream, answered, and written to a file, with `stream/promises` from end to end.
// Memory stays bounded whatever the length of the input: a full disk cache or a slow file stops the reading of rows,
// not the other way round. Usage: node scripts/run-example.mjs 02-etl-job [MODEL]
import { createWriteStream } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Engine, type Row, type RowInput, type RowResult } from 'spillway';

const TICKETS = [
  { ticket: 4711, text: 'I was charged twice in March.' },
  { ticket: 4712, text: 'The app closes when I open the camera.' },
  { ticket: 4713, text: '' },
  { ticket: 4714, text: 'Where is my parcel?' },
];

interface Ticket {
  readonly ticket: number;
  readonly text: string;
}

/** Extract: here from memory; in a real job from a database cursor, a queue or a file. */
function extract(): Readable {
  return Readable.from(TICKETS);
}

/**
 * A ticket becomes a prompt. One without text is passed on as a bad row: it becomes a row of the output, and the job
 * goes on.
 */
async function* toRows(tickets: AsyncIterable<Ticket>): AsyncGenerator<RowInput> {
  for await (const { ticket, text } of tickets) {
    if (text === '') yield { id: ticket, error: { code: 'empty-prompt', message: 'the ticket has no text' } };
    else yield prompt(ticket, text);
  }
}

function prompt(ticket: number, text: string): Row {
  return {
    id: ticket,
    messages: [{ role: 'user', content: `Answer with one word: billing, technical or shipping.\n\nTicket: ${text}` }],
  };
}

async function* toLines(results: AsyncIterable<RowResult>): AsyncGenerator<string> {
  for await (const { id, text, error } of results) {
    yield `${JSON.stringify(error ? { ticket: id, error: error.message } : { ticket: id, team: text.trim() })}\n`;
  }
}

/** Runs the job and returns the file that it wrote. */
export async function main(model: string): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), 'spillway-example-')), 'teams.jsonl');
  await using engine = await Engine.open({ model });
  await pipeline(
    extract(),
    toRows,
    (rows: AsyncIterable<RowInput>) => engine.generate(rows, { maxNewTokens: 8, order: 'completion' }),
    toLines,
    createWriteStream(file),
  );
  console.log(`written: ${file}`);
  return file;
}
