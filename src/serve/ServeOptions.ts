import { isIP } from 'node:net';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkFunction, checkSignal } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { membersOf } from '../arguments/isObject.js';
import { number, object, text, whole } from '../arguments/memberChecks.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowGenerator } from '../jobs/JobOptions.js';
import type {
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  RerankOptions,
  RerankResult,
} from '../Results.js';
import type { GenerateOptions, RowDelta, RowInput, RowResult } from '../Row.js';
import type { EngineActivity, RunStats } from '../RunStats.js';
import type { Fact } from './watch/WatchSource.js';

/** Something that has come of a row: more of its answer, or its result. */
export type ServedEvent =
  { readonly type: 'delta'; readonly delta: RowDelta } | { readonly type: 'result'; readonly result: RowResult };

/** A call's results, as `Engine.generate` returns them. */
export interface ServedResults extends AsyncIterable<RowResult> {
  /** The figures of the call, once it is over. */
  readonly stats: Promise<Pick<RunStats, 'sharing'>>;
  /** Results and, before each, what its row's answer has grown by. */
  events(): AsyncGenerator<ServedEvent, void, undefined>;
}

/** The options of a server's call. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Rows of a request come in before those of batches. */
  readonly priority?: number;
}

/** The members that a server needs of an engine: an `Engine`, or whatever answers rows as one does. */
export interface ServedEngine extends RowGenerator {
  generate(rows: AsyncIterable<RowInput> | Iterable<RowInput>, options?: GenerateOptions & CallOptions): ServedResults;
  embed?(
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    options?: EmbedOptions & CallOptions,
  ): AsyncIterable<EmbedResult>;
  rerank?(
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    options?: RerankOptions & CallOptions,
  ): AsyncIterable<RerankResult>;
  /** No route of the server's needs it. */
  classify?(
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    options?: ClassifyOptions & CallOptions,
  ): AsyncIterable<ClassifyResult>;
  /** The texts by which log-probabilities call tokens, and whether there is a chat template. */
  readonly tokenizer?: {
    readonly hasChatTemplate?: boolean;
    text(token: number): string;
    readonly answerBytes?: ((token: number, first: boolean) => Uint8Array) | undefined;
  };
  /** The model's files: a batch that goes on is answered by the same. */
  readonly source?: { readonly files: readonly string[]; readonly decoder?: { readonly contextTokens: number } };
  /** For the page and `/metrics`: what it has been doing. */
  activity?(): EngineActivity;
  /** For the page: by which plan it runs, in words. */
  planFacts?(): readonly Fact[];
  /** Frees everything. */
  close?(): Promise<void>;
}

/** A model that requests may name. */
export interface ServedModel {
  /** Its name in requests. */
  readonly name: string;
  /** Other names of it, such as the path that it was given by. */
  readonly aliases?: readonly string[];
  /** Opens it: when it is first asked for, and again after it has made room for another one. Downloads nothing. */
  open(signal: AbortSignal): Promise<ServedEngine>;
}

/** The limits of a server: what they may be, and what they are if nothing is said. */
export const SERVE_LIMITS = {
  bodyBytes: { least: 1024, most: 2 ** 30, whole: true, fallback: 8 * 2 ** 20, about: 'Bytes of a JSON body' },
  heldBytes: {
    least: 1024,
    most: 2 ** 40,
    whole: true,
    fallback: 256 * 2 ** 20,
    about: 'Bytes of all JSON bodies that are being read or answered together',
  },
  uploadBytes: {
    least: 1024,
    most: 2 ** 40,
    whole: true,
    fallback: 512 * 2 ** 20,
    about: 'Bytes of a file that is sent',
  },
  storedBytes: {
    least: 1024,
    most: 2 ** 50,
    whole: true,
    fallback: 64 * 2 ** 30,
    about: 'Bytes of all files that are kept, those that batches made among them; beyond them none is taken',
  },
  storedFiles: { least: 1, most: 10_000_000, whole: true, fallback: 100_000, about: 'Files that are kept' },
  batchRows: { least: 1, most: 100_000_000, whole: true, fallback: 1_000_000, about: 'Requests of a batch' },
  openBatches: { least: 1, most: 1024, whole: true, fallback: 4, about: 'Batches that are answered at once' },
  waitingBatches: { least: 1, most: 1_000_000, whole: true, fallback: 10_000, about: 'Batches that are not over' },
  openRequests: {
    least: 1,
    most: 65_536,
    whole: true,
    fallback: 512,
    about: 'Requests that are answered by a model at once',
  },
  connections: { least: 1, most: 65_536, whole: true, fallback: 2048, about: 'Connections that are open at once' },
  inputs: { least: 1, most: 65_536, whole: true, fallback: 2048, about: 'Prompts, inputs or documents of one request' },
  choices: { least: 1, most: 65_536, whole: true, fallback: 128, about: 'Answers to one request: its prompts times n' },
  headerSeconds: { least: 0.1, most: 86_400, fallback: 30, about: 'Seconds that a request may take to send its head' },
  bodySeconds: { least: 0.1, most: 86_400, fallback: 60, about: 'Seconds that it may take to send a JSON body' },
  uploadSeconds: { least: 0.1, most: 86_400, fallback: 3600, about: 'Seconds that it may take to send a file' },
  idleSeconds: {
    least: 0.1,
    most: 86_400,
    fallback: 65,
    about: 'Seconds that a connection may wait for its next request',
  },
  stallSeconds: {
    least: 0.1,
    most: 86_400,
    fallback: 60,
    about: 'Seconds for which a client may take nothing of its answer',
  },
  requestSeconds: { least: 0.1, most: 604_800, fallback: 3600, about: 'Seconds that the answer to a request may take' },
  drainSeconds: {
    least: 0,
    most: 86_400,
    fallback: 30,
    about: 'Seconds that open answers have to end when the server is stopped',
  },
} as const satisfies Readonly<
  Record<
    string,
    {
      readonly least: number;
      readonly most: number;
      readonly whole?: true;
      readonly fallback: number;
      readonly about: string;
    }
  >
>;

export type ServeLimit = keyof typeof SERVE_LIMITS;
export type ServeLimits = Readonly<Record<ServeLimit, number>>;

/** How models are served. */
export interface ServeOptions extends Partial<ServeLimits> {
  /** At least one; a request that names none is for the only one. */
  readonly models: readonly ServedModel[];
  /** An address of this machine. Default 127.0.0.1. Any but a loopback address needs an `apiKey`. */
  readonly host?: string;
  /** Default 8080; 0 for any that is free. */
  readonly port?: number;
  /** The folder of files and batches, made if need be: what is in it goes on. */
  readonly data: string;
  /** The key that requests have to bring as `Authorization: Bearer KEY`, all but those of `/health`. Default: none. */
  readonly apiKey?: string;
  /** Names beside `localhost`, `host` and IP addresses that requests may call the server by (`Host`). */
  readonly allowedHosts?: readonly string[];
  /** Web pages that may use it, such as `https://app.example`, by their origins. Default: none but its own. */
  readonly allowedOrigins?: readonly string[];
  /** Models that are in memory at once at most. Default: as many as fit. */
  readonly modelsInMemory?: number;
  /** The options for rows that say nothing themselves, of requests and of batches. */
  readonly generate?: GenerateOptions;
  /** Called with what is worth a line in a log, such as a batch that has failed. */
  readonly onMessage?: (message: string) => void;
  /** Stops the server as `close` does. */
  readonly signal?: AbortSignal;
}

const LIMIT_CHECKS = Object.fromEntries(
  Object.entries(SERVE_LIMITS).map(([name, range]) => [name, number(range)]),
) as Record<ServeLimit, Check>;

const CHECKS: Readonly<Record<keyof ServeOptions, Check>> = {
  ...LIMIT_CHECKS,
  models: checkModels,
  host: text('an address of this machine'),
  port: whole(0, 65_535),
  data: text('the path of a folder'),
  apiKey: checkKey,
  allowedHosts: textsThat(
    (name) => isIP(name) > 0 || /^[a-z0-9._-]+$/i.test(name),
    'names such as box.example, without a port',
  ),
  allowedOrigins: textsThat(
    (origin) => origin === 'null' || /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#*]+\/?$/i.test(origin),
    'origins such as https://app.example: each page that may is named',
  ),
  modelsInMemory: whole(1),
  generate: object,
  onMessage: checkFunction,
  signal: checkSignal,
};

/** @throws UsageError naming the option, what was found and what was expected */
export function checkServeOptions(options: unknown): asserts options is ServeOptions {
  checkMembers('options', options, CHECKS);
  const { models, data } = membersOf(options);
  checkModels('models', models);
  text('the path of a folder')('data', data);
}

export function limitsOf(options: Partial<ServeLimits>): ServeLimits {
  return Object.fromEntries(
    Object.entries(SERVE_LIMITS).map(([name, { fallback }]) => [name, options[name as ServeLimit] ?? fallback]),
  ) as Record<ServeLimit, number>;
}

function checkModels(name: string, value: unknown): void {
  if (!Array.isArray(value) || value.length === 0)
    throw new UsageError(`${name}: found ${found(value)}, expected an array of one model or more`);
  const seen = new Set<unknown>();
  for (const [at, model] of value.entries()) {
    const { name: called, aliases = [], open } = membersOf(model);
    if (typeof called !== 'string' || called === '' || typeof open !== 'function' || !Array.isArray(aliases))
      throw new UsageError(`${name}[${at}]: found ${found(model)}, expected { name, open }`);
    for (const each of new Set([called, ...(aliases as unknown[])])) {
      if (seen.has(each))
        throw new UsageError(`${name}[${at}]: found ${found(each)} a second time, expected names that differ`);
      seen.add(each);
    }
  }
}

/** Checks that a key fits a header, and cannot be guessed in a day. */
export function checkKey(name: string, value: unknown): void {
  if (typeof value !== 'string' || !/^[\x21-\x7e]{8,1024}$/.test(value))
    throw new UsageError(
      `${name}: found ${typeof value === 'string' ? `a text of ${value.length} characters` : found(value)}, expected 8 to 1024 visible ASCII characters without blanks`,
    );
}

/** A list of texts that requests can have: one that none can would be as good as none, and nobody would know. */
function textsThat(isOne: (text: string) => boolean, expected: string): Check {
  return (name, value) => {
    const wrong: readonly unknown[] = Array.isArray(value)
      ? value.filter((text: unknown) => typeof text !== 'string' || !isOne(text))
      : [value];
    if (wrong.length > 0) throw new UsageError(`${name}: found ${found(wrong[0])}, expected ${expected}`);
  };
}
