import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Finding } from './runCase.js';

const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
/** Instrumented sources note what has run, and here nobody asks. */
const UNCOUNTED = 'data:text/javascript,globalThis.spillwayCoverage={seen:new Uint8Array(2**20),reached(){}}';
const ROWS = [{ tokens: [1, 2, 3] }, { prompt: 'Hello world' }, { messages: [{ role: 'user', content: 'Hello' }] }];
/** Done; a file that cannot be used; too little memory; done, but for some rows. */
const EXIT_CODES: readonly (number | null)[] = [0, 2, 3, 4];
/** Against hanging for ever. */
const MOST_MILLISECONDS = 500_000;

/**
 * Generates from a case's model by the command line.
 * @param folder for what would go to the user's
 * @param opened whether an engine opened it, where that is to be the same
 * @throws Finding for an exit code that is none of a model's files, an error that is none of ours, and where an engine
 * opened what the command did not, or the other way round
 */
export function checkCommandLine(model: string, folder: string, opened: boolean | undefined): void {
  const words = [
    'generate',
    '--model',
    model,
    '--input',
    '-',
    '--output',
    '-',
    '--max-new-tokens',
    '2',
    '--cpu-memory',
    '400MiB',
    '--threads',
    '1',
    '--disk',
    join(folder, 'disk'),
  ];
  const { status, signal, stderr } = spawnSync(process.execPath, ['--import', UNCOUNTED, MAIN, ...words], {
    input: ROWS.map((row) => JSON.stringify(row)).join('\n'),
    encoding: 'utf8',
    timeout: MOST_MILLISECONDS,
    env: { ...process.env, XDG_CACHE_HOME: folder, HOME: folder },
  });
  const end = stderr.slice(-400);
  if (!EXIT_CODES.includes(status)) throw new Finding(`command line: exit ${signal ?? status}: ${end}`);
  if (stderr.includes('something went wrong that should not'))
    throw new Finding(`command line: an error that is none of ours: ${end}`);
  if (opened !== undefined && opened !== (status === 0 || status === 4))
    throw new Finding(
      `command line: exit ${status}, and the engine ${opened ? 'opened' : 'refused'} the model: ${end}`,
    );
}
