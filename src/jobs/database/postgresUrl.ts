import { UsageError } from '../../errors/UsageError.js';

/** Tells whether a database is one of Postgres, by its address. */
export function isPostgres(database: string): boolean {
  return /^postgres(ql)?:/i.test(database);
}

/**
 * The address of a database of Postgres, and its name without credentials. @param what has it, for the message
 * @throws UsageError, which does not repeat what it may hold of secrets
 */
export function postgresUrl(what: string, database: string): { readonly url: URL; readonly name: string } {
  try {
    const url = new URL(database);
    decodeURIComponent(url.username + url.password);
    return { url, name: `postgres://${url.host}${url.pathname}` };
  } catch {
    throw new UsageError(
      `${what}: found a text for a database that is no URL, expected postgres://HOST:PORT/DATABASE; what stands for itself in a user or a password is written with %, or the password is in PGPASSWORD`,
    );
  }
}
