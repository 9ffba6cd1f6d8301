import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';

const KINDS: Readonly<Record<string, 'nats' | 'postgres'>> = {
  'nats:': 'nats',
  'tls:': 'nats',
  'postgres:': 'postgres',
  'postgresql:': 'postgres',
};
const EXPECTED = 'nats://HOST:PORT, tls://HOST:PORT or postgres://HOST:PORT/DATABASE';
const JOB = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** Where a queue is. Credentials are in `url` alone, and go into no message. */
export interface QueueAddress {
  readonly kind: 'nats' | 'postgres';
  readonly url: URL;
  /** Without credentials. */
  readonly name: string;
}

/** @throws UsageError, which does not repeat what may hold a password */
export function parseQueueAddress(text: string): QueueAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new UsageError(`queue: found a text that is no URL, expected ${EXPECTED}`);
  }
  const kind = KINDS[url.protocol];
  if (kind === undefined) throw new UsageError(`queue: found a URL of ${url.protocol}, expected ${EXPECTED}`);
  try {
    decodeURIComponent(url.username + url.password);
  } catch {
    throw new UsageError(
      `queue: found a user or a password with a % that stands for no character, expected %25 for it, or ${kind === 'nats' ? 'NATS_PASSWORD' : 'PGPASSWORD'} in the environment`,
    );
  }
  const unknown = kind === 'nats' ? [...url.searchParams.keys()].find((name) => name !== 'replicas') : undefined;
  if (unknown !== undefined)
    throw new UsageError(
      // Its name is no word of a password that has a ? in it.
      `queue: found the unknown parameter ${/^[a-z_]+$/.test(unknown) ? found(unknown) : '(not repeated here)'} in the URL, expected replicas or none; a ? of a user or a password is written %3F`,
    );
  return { kind, url, name: `${url.protocol}//${url.host}${url.pathname}` };
}

/** @throws UsageError unless streams, buckets and folders may be called so */
export function checkJobName(job: unknown): asserts job is string {
  if (typeof job !== 'string' || !JOB.test(job))
    throw new UsageError(
      `job: found ${typeof job === 'string' ? JSON.stringify(job.slice(0, 80)) : String(job)}, expected a name of 1 to 64 letters, digits, _ and -`,
    );
}

/** Gives the words of a client's error, without what the URL and the environment have of secrets. */
export function wordsOf(error: unknown, secrets: readonly (string | undefined)[]): string {
  let words = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : messageOf(error);
  for (const secret of secrets) if (secret !== undefined && secret !== '') words = words.replaceAll(secret, '***');
  return words;
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { readonly code?: unknown };
  return error.message === '' ? (typeof code === 'string' ? code : error.name) : error.message;
}
