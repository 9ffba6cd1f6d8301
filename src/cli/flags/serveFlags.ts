import { Option, type Command } from 'commander';
import { SERVE_LIMITS, type ServeLimit, type ServeLimits, UsageError } from '../library.js';
import { gathering, longFlag } from './commandFlags.js';
import { decimal, path, size, wholeNumber } from './parsers.js';
import { shortFile } from './textFiles.js';

export interface ServeFlags extends Partial<ServeLimits> {
  readonly model?: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly data?: string;
  readonly apiKeyFile?: string;
  readonly allowHost?: readonly string[];
  readonly allowOrigin?: readonly string[];
  readonly modelsInMemory?: number;
}

const MOST_PORT = 65_535;
const MOST_KEY_BYTES = 4096;
const KEY_VARIABLE = 'SPILLWAY_API_KEY';

export function addServeFlags(command: Command): void {
  command.optionsGroup('Models and address:');
  command.addOption(
    gathering(
      new Option(
        '--model <path|name>',
        'necessary: a model that requests may name, as for `generate`; may be given several times. What has to be fetched is fetched at the start',
      ).argParser(gathered),
    ),
  );
  command.option(
    '--models-in-memory <n>',
    'models that are in memory at once at most (default: as many as fit)',
    wholeNumber(1),
  );
  command.option(
    '--host <address>',
    'where it listens; any but a loopback address demands an API key',
    path,
    '127.0.0.1',
  );
  command.option('--port <n>', '0: any that is free', wholeNumber(0, MOST_PORT), 8080);
  command.addOption(
    new Option(
      '--api-key-file <file>',
      `what requests have to bring as \`Authorization: Bearer KEY\`: the text of this file, or of the variable ${KEY_VARIABLE} (default: none)`,
    ).argParser(path),
  );
  for (const [flag, what] of [
    ['--allow-host <name>', 'a name beside localhost and IP addresses that requests may call the server by'],
    ['--allow-origin <origin>', 'a web page that may use it, such as https://app.example'],
  ] as const)
    command.addOption(
      gathering(new Option(flag, `${what}; may be given several times (default: none)`).argParser(gathered)),
    );
  command.addOption(
    new Option(
      '--data <dir>',
      "the folder of files and batches, which the next server goes on with (default: spillway/serve in the user's folder of data)",
    ).argParser(path),
  );
}

/** Each limit of the server by its name. */
export function addLimitFlags(command: Command): void {
  command.optionsGroup('Limits:');
  for (const [name, limit] of Object.entries(SERVE_LIMITS)) {
    const [kind, parser] = name.endsWith('Bytes')
      ? (['size', size] as const)
      : 'whole' in limit
        ? (['n', wholeNumber(limit.least, limit.most)] as const)
        : (['seconds', decimal(limit)] as const);
    const about = limit.about.charAt(0).toLowerCase() + limit.about.slice(1);
    command.option(`${longFlag(name)} <${kind}>`, about, parser, limit.fallback);
  }
}

/** Gives the limits the flags set. */
export function serveLimits(flags: Partial<ServeLimits>): Partial<ServeLimits> {
  return Object.fromEntries(
    (Object.keys(SERVE_LIMITS) as ServeLimit[]).flatMap((name) =>
      flags[name] === undefined ? [] : [[name, flags[name]]],
    ),
  );
}

/** The key of the file, or of the environment. @throws JobFileError */
export async function apiKeyOf(
  { apiKeyFile }: Pick<ServeFlags, 'apiKeyFile'>,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string | undefined> {
  const given = environment[KEY_VARIABLE];
  if (apiKeyFile === undefined) return given === undefined || given === '' ? undefined : given;
  const takes = ['--api-key-file', 'a key'] as const;
  // An editor ends a file with a line feed, or does not.
  return (await shortFile(takes, apiKeyFile, MOST_KEY_BYTES, 'at most so many', signal)).toString('latin1').trim();
}

function gathered(text: string, before: readonly string[] | undefined): readonly string[] {
  if (before?.includes(text) === true) throw new UsageError(`found ${text} twice, expected each once`);
  return [...(before ?? []), path(text)];
}
