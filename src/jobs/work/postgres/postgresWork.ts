import type * as Postgres from 'pg';
import { UsageError } from '../../../errors/UsageError.js';
import { loadPeers } from '../../loadPeers.js';
import { type JobManifest, type MetJob, parseManifest, queuedJson } from '../JobManifest.js';
import { LAST_SECONDS, pause, type Persistence, persistently, UNSTOPPED, withinSeconds } from '../persistently.js';
import { checkJobName, type QueueAddress } from '../QueueAddress.js';
import {
  cancelled,
  checkedState,
  committed,
  failed,
  givenBack,
  holds,
  leased,
  newAttempt,
  progressed,
} from '../shardStates.js';
import type { Lease, LeaseOptions, ShardState, WorkSource } from '../WorkSource.js';

const PACKAGE = 'pg';
const CONNECT_SECONDS = 5;
/** How long a worker that begins waits for a queue, which may be being started itself. */
const REACH_SECONDS = 15;
const ANSWER_SECONDS = 10;
/** How often a worker looks that finds nothing: others may give back, or go away. */
const LOOK_SECONDS = 0.5;
/** A worker that is told to stop says so, and does not wait for a server that is away. */
const PARTING_SECONDS = 3;
/** Classes of SQLSTATE that are about the connection, or the server's state. */
const TRANSIENT = /^(08|40|53|57)/;
const UNDEFINED_TABLE = '42P01';

const TABLES = `
  create table if not exists spillway_jobs (name text primary key, manifest text not null, identity text);
  create table if not exists spillway_shards (
    job text not null references spillway_jobs on delete cascade,
    shard integer not null,
    state text not null default 'open',
    deliveries integer not null default 0,
    attempt text,
    worker text,
    reasons jsonb not null default '[]',
    expires timestamptz,
    primary key (job, shard));
  alter table spillway_shards add column if not exists progress jsonb;
  create index if not exists spillway_shards_waiting on spillway_shards (job, shard) where state in ('open', 'leased');`;

/** Tables of earlier versions say nothing of progress. */
const STATE = "shard, state, deliveries, attempt, worker, reasons, to_jsonb(spillway_shards) -> 'progress' as progress";

/**
 * `clock_timestamp()` is the server's clock, and the moment itself: what a worker's clock says is nothing to a lease.
 */
const NEXT = `
  select ${STATE} from spillway_shards
  where job = $1 and (state = 'open' or (state = 'leased' and (attempt = $2 or expires <= clock_timestamp())))
  order by (attempt is not distinct from $2) desc, shard limit 1 for update skip locked`;

/**
 * The shards of a job in two tables of a Postgres, `spillway_jobs` and `spillway_shards`: a worker takes the next one
 * by `for update skip locked`, and leases end by the server's clock. Credentials and certificates are those of the URL,
 * or of the environment, by libpq's names (`PGPASSWORD`, `PGSSLMODE`, …; `?sslmode=verify-full&sslrootcert=FILE`).
 * @throws QueueError; UsageError where the package `pg` is not installed
 */
export async function postgresWork(
  address: QueueAddress,
  job: string,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<WorkSource> {
  checkJobName(job);
  const [module] = (await loadPeers('a queue on Postgres', PACKAGE)) as readonly [typeof Postgres];
  const pool = new module.Pool({
    connectionString: address.url.href,
    max: 2,
    application_name: 'spillway',
    connectionTimeoutMillis: CONNECT_SECONDS * 1000,
    query_timeout: ANSWER_SECONDS * 1000,
    statement_timeout: ANSWER_SECONDS * 1000,
    lock_timeout: ANSWER_SECONDS * 1000,
    // A worker that was stopped in the middle must not hold a row for ever.
    idle_in_transaction_session_timeout: ANSWER_SECONDS * 1000,
    keepAlive: true,
  });
  // A connection that breaks while nobody uses it is replaced.
  pool.on('error', () => undefined);
  // Without a listener an error of a connection ends the process, and the pool hands connections over without one. Its
  // query fails with it.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const work = new PostgresWork(pool, address, job, signal);
  try {
    await work.reach();
    return work;
  } catch (error) {
    await work[Symbol.asyncDispose]();
    throw error;
  }
}

class PostgresWork implements WorkSource {
  readonly name: string;
  readonly #persistence: Persistence;
  /** The job that this source has met last, whatever has its name by now. */
  #known: MetJob | undefined;
  #hasProgress: boolean | undefined;

  constructor(
    private readonly pool: Postgres.Pool,
    { name, url }: QueueAddress,
    private readonly job: string,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.name = `${name} job ${job}`;
    this.#persistence = {
      name: this.name,
      secrets: [decodeURIComponent(url.password), process.env['PGPASSWORD']],
      isTransient,
    };
  }

  /** @throws QueueError unless the server is there */
  async reach(): Promise<void> {
    await this.#do('connect', () => this.pool.query('select 1'), { seconds: REACH_SECONDS });
  }

  async submit(manifest: JobManifest): Promise<void> {
    const json = queuedJson('manifest', manifest);
    await this.#transaction('submit the job', async (client) => {
      // Two that make the tables at once would be in each other's way.
      await client.query("select pg_advisory_xact_lock(hashtext('spillway'))");
      await client.query(TABLES);
      const made = await client.query(
        'insert into spillway_jobs (name, manifest) values ($1, $2) on conflict do nothing',
        [this.job, json],
      );
      if (made.rowCount === 0) {
        const { rows } = await client.query<{ manifest: string }>(
          'select manifest from spillway_jobs where name = $1',
          [this.job],
        );
        // Ours, where the answer was lost.
        if (rows[0]?.manifest === json) return;
        throw new UsageError(`${this.name}: found a job of that name, expected none; \`overwrite\` replaces it`);
      }
      await client.query('insert into spillway_shards (job, shard) select $1, generate_series(0, $2::integer - 1)', [
        this.job,
        manifest.shards.count,
      ]);
    });
    this.#known = undefined;
  }

  async jobs(): Promise<readonly string[]> {
    const rows = await this.#do('list the jobs', () =>
      this.#rows<{ name: string }>('select name from spillway_jobs order by name collate "C"', []),
    );
    return rows.map(({ name }) => name);
  }

  async manifest(): Promise<JobManifest> {
    return (await this.#readJob()).manifest;
  }

  async #readJob(): Promise<MetJob> {
    const rows = await this.#do('read the job', () =>
      this.#rows<{ manifest: unknown }>('select manifest from spillway_jobs where name = $1', [this.job]),
    );
    if (rows[0] === undefined) throw new UsageError(`${this.name}: found no such job, expected one that was submitted`);
    const { manifest } = rows[0];
    return (this.#known = { manifest: parseManifest(this.name, manifest), json: manifest as string });
  }

  async agree(identity: string): Promise<string> {
    const { json } = await this.#met();
    const [row] = await this.#do('agree on what is computed', () =>
      this.#rows<{ identity: unknown }>(
        'update spillway_jobs set identity = coalesce(identity, $2) where name = $1 and manifest = $3 returning identity',
        [this.job, identity, json],
      ),
    );
    if (row === undefined) throw this.#replaced();
    return String(row.identity);
  }

  async lease({ worker, signal }: LeaseOptions): Promise<Lease | undefined> {
    const met = await this.#met();
    const { maxDeliver } = met.manifest;
    for (let attempt = newAttempt(); signal?.aborted !== true;) {
      const now = await this.#transaction(
        'take a shard',
        async (client) => {
          if (!(await this.#isThere(client, met))) throw this.#replaced();
          const { rows } = await client.query(NEXT, [this.job, attempt]);
          if (rows.length === 0) return undefined;
          const next = leased(this.#stateOf(rows[0]), attempt, worker, maxDeliver);
          await this.#write(client, next, met.manifest.leaseSeconds);
          return next;
        },
        { signal },
      );
      if (now !== undefined && holds(now, attempt)) return this.#leaseOf(now, attempt, worker, met);
      if (now !== undefined) {
        // That one was delivered too often.
        attempt = newAttempt();
        continue;
      }
      if ((await this.#waiting(signal)) === 0) return undefined;
      await pause(LOOK_SECONDS, signal);
    }
    return undefined;
  }

  async shards(): Promise<readonly ShardState[]> {
    const rows = await this.#do('read the shards', () =>
      this.#rows(`select ${STATE} from spillway_shards where job = $1 order by shard`, [this.job]),
    );
    const { count } = (await this.#met()).manifest.shards;
    return Array.from({ length: count }, (_, shard) => this.#stateOf(rows[shard] ?? { shard }));
  }

  async cancel(reason: string): Promise<number> {
    const met = await this.#met();
    return this.#transaction('cancel the job', async (client) => {
      if (!(await this.#isThere(client, met))) throw this.#replaced();
      const { rows } = await client.query(
        `select ${STATE} from spillway_shards where job = $1 and state in ('open', 'leased') order by shard for update`,
        [this.job],
      );
      let given = 0;
      for (const row of rows) {
        const now = cancelled(this.#stateOf(row), reason);
        if (now === undefined) continue;
        await this.#write(client, now, met.manifest.leaseSeconds);
        given += 1;
      }
      return given;
    });
  }

  async remove(): Promise<void> {
    await this.#do('remove the job', () => this.#rows('delete from spillway_jobs where name = $1', [this.job]));
    this.#known = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Not for a server that does not answer.
    await withinSeconds(LAST_SECONDS, this.pool.end()).catch(() => undefined);
  }

  #leaseOf({ shard, deliveries }: ShardState, attempt: string, worker: string, met: MetJob): Lease {
    const { maxDeliver, leaseSeconds } = met.manifest;
    const change = (
      what: string,
      next: (before: ShardState) => ShardState | undefined,
      options: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
    ): Promise<ShardState | undefined> =>
      this.#transaction(
        what,
        async (client) => {
          if (!(await this.#isThere(client, met))) return undefined;
          const { rows } = await client.query(
            `select ${STATE} from spillway_shards where job = $1 and shard = $2 for update`,
            [this.job, shard],
          );
          const now = rows.length === 0 ? undefined : next(this.#stateOf(rows[0]));
          if (now !== undefined) await this.#write(client, now, leaseSeconds);
          return now;
        },
        options,
      );
    return {
      shard,
      attempt,
      delivery: deliveries,
      renew: async (progress) => {
        const now = await change(
          'renew a lease',
          (before) => (holds(before, attempt) ? progressed(before, progress) : undefined),
          { seconds: 0 },
        );
        return now !== undefined;
      },
      commit: async (signal) =>
        (await change('commit a shard', (before) => committed(before, attempt, worker), { signal })) !== undefined,
      giveBack: async () => {
        await change('give a shard back', (before) => givenBack(before, attempt), {
          seconds: PARTING_SECONDS,
          signal: UNSTOPPED,
        });
      },
      fail: async (reason, signal) => {
        await change('say that a shard failed', (before) => failed(before, attempt, reason, maxDeliver), { signal });
      },
    };
  }

  async #write(client: Postgres.PoolClient, now: ShardState, leaseSeconds: number): Promise<void> {
    const { shard, state, deliveries, attempt = null, worker = null, reasons, progress } = now;
    const hasProgress = await this.#tellsProgress(client);
    await client.query(
      `update spillway_shards set state = $3, deliveries = $4, attempt = $5, worker = $6, reasons = $7,
         expires = case when $3 = 'leased' then clock_timestamp() + make_interval(secs => $8) end
         ${hasProgress ? ', progress = $9' : ''}
       where job = $1 and shard = $2`,
      [
        this.job,
        shard,
        state,
        deliveries,
        attempt,
        worker,
        JSON.stringify(reasons),
        leaseSeconds,
        ...(hasProgress ? [progress ? JSON.stringify(progress) : null] : []),
      ],
    );
  }

  /** Tells whether the tables have a place for progress. */
  async #tellsProgress(client: Postgres.PoolClient): Promise<boolean> {
    this.#hasProgress ??=
      (
        await client.query(
          `select from pg_attribute where attrelid = 'spillway_shards'::regclass and attname = 'progress' and not attisdropped`,
        )
      ).rows.length > 0;
    return this.#hasProgress;
  }

  async #met(): Promise<MetJob> {
    return this.#known ?? (await this.#readJob());
  }

  /** Tells whether the job is still the one that was met, until the transaction ends. */
  async #isThere(client: Postgres.PoolClient, { json }: MetJob): Promise<boolean> {
    const { rows } = await client.query('select from spillway_jobs where name = $1 and manifest = $2 for key share', [
      this.job,
      json,
    ]);
    return rows.length > 0;
  }

  #replaced(): UsageError {
    return new UsageError(
      `${this.name}: found another job of that name by now, or none, expected the one that was there: it was removed or overwritten; whoever begins anew works on what is there`,
    );
  }

  /** Shards that are open, or under way. */
  async #waiting(signal: AbortSignal | undefined): Promise<number> {
    const [row] = await this.#do(
      'count what is left',
      () =>
        this.#rows<{ waiting: number }>(
          `select count(*)::integer as waiting from spillway_shards where job = $1 and state in ('open', 'leased')`,
          [this.job],
        ),
      { signal },
    );
    return row?.waiting ?? 0;
  }

  #stateOf(row: unknown): ShardState {
    const { shard } = row as { readonly shard: number };
    return checkedState(this.name, shard, row);
  }

  /** @returns none where there are no tables yet */
  async #rows<Row extends object = Record<string, unknown>>(
    sql: string,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    try {
      return (await this.pool.query<Row>(sql, [...values])).rows;
    } catch (error) {
      if (codeOf(error) === UNDEFINED_TABLE) return [];
      throw error;
    }
  }

  #transaction<T>(
    what: string,
    work: (client: Postgres.PoolClient) => Promise<T>,
    options: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    return this.#do(
      what,
      async () => {
        const client = await this.pool.connect();
        let broken: Error | undefined;
        try {
          await client.query('begin');
          const value = await work(client);
          await client.query('commit');
          return value;
        } catch (error) {
          await client.query('rollback').catch((failure: unknown) => {
            broken = failure as Error;
          });
          throw error;
        } finally {
          client.release(broken);
        }
      },
      options,
    );
  }

  #do<T>(
    what: string,
    work: () => Promise<T>,
    options: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    return persistently(this.#persistence, what, work, { ...options, signal: options.signal ?? this.signal });
  }
}

function codeOf(error: unknown): unknown {
  return (error as { readonly code?: unknown } | undefined)?.code;
}

/** Tells whether an error is about the connection or the server's state; others are about what was asked. */
function isTransient(error: unknown): boolean {
  const code = codeOf(error);
  if (typeof code !== 'string') return error instanceof Error && !(error instanceof TypeError);
  // Codes of the system, such as ECONNREFUSED, are no SQLSTATE.
  return /^E[A-Z]/.test(code) || TRANSIENT.test(code);
}
