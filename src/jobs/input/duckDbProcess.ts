/*
 * The program of the process in which DuckDB runs (`duckDbQuery`). It answers what it is asked, and ends with whoever
 * asks.
 */
import { rmSync } from 'node:fs';
import { answersOf, collect, toldError } from './duckDbAnswers.js';
import type { Answer, Request } from './duckDbMessages.js';
import { duckDbRows } from './duckDbRows.js';
import type { OpenQuery } from './OpenQuery.js';

// Whoever asks hears them too, and ends it when there is no more to ask.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

let temporary: string | undefined;
process.on('disconnect', () => {
  try {
    if (temporary !== undefined) rmSync(temporary, { recursive: true, force: true });
  } finally {
    // At once: the threads of a query would be waited for.
    process.kill(process.pid, 'SIGKILL');
  }
});

let query: OpenQuery | undefined;
let answers: AsyncGenerator<Answer, void, Request> | undefined;
process.on('message', (request: Request) => {
  void answered(request).then((answer) =>
    process.send?.(answer, () => {
      if (answer.kind === 'end') void leave();
    }),
  );
});

/** Files that statements wrote are closed, so that they are whole and have no log; then there is no more to do. */
async function leave(): Promise<void> {
  try {
    answers = undefined;
    // What is left of it holds files open.
    await collect();
    await query?.[Symbol.asyncDispose]();
  } finally {
    process.kill(process.pid, 'SIGKILL');
  }
}

async function answered(request: Request): Promise<Answer> {
  try {
    if (typeof request === 'object' && 'sql' in request) {
      ({ temporary } = request);
      query = await duckDbRows(request);
      answers = answersOf(query);
    }
    const step = await answers?.next(request);
    return step?.value ?? { kind: 'end' };
  } catch (error) {
    return toldError(error);
  }
}
