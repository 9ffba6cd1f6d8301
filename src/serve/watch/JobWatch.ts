import { UsageError } from '../../errors/UsageError.js';
import { Registry } from '../../metrics/Registry.js';
import type { EngineActivity } from '../../RunStats.js';
import { Gate, isLoopback } from '../http/Gate.js';
import { HttpServer } from '../http/HttpServer.js';
import { checkKey, limitsOf } from '../ServeOptions.js';
import { engineMetrics, processMetrics } from './engineMetrics.js';
import { Watch } from './Watch.js';
import { healthRoute, metricsRoute, watchRoutes } from './watchRoutes.js';
import type { Fact, FailedRow, WatchState } from './WatchSource.js';

const [HOST, CONNECTIONS, LINGER_SECONDS] = ['127.0.0.1', 64, 0.5];

export interface JobWatchOptions {
  /** The title of the page. */
  readonly title: string;
  readonly facts: readonly Fact[];
  /** 0 for any that is free. */
  readonly port: number;
  /** Default 127.0.0.1. Any but a loopback address needs an `apiKey`. */
  readonly host?: string;
  /** The key that requests have to bring as `Authorization: Bearer KEY`; the page asks for it. Default: none. */
  readonly apiKey?: string;
}

/** A job's engine, as who watches sees it. */
export interface WatchedEngine {
  readonly name: string;
  /** Its plan, in words. */
  readonly plan: readonly Fact[];
  activity(): EngineActivity;
}

/** Fields that a watched job needs of a result. */
export interface WatchedResult {
  readonly id: string | number;
  readonly error?: FailedRow['error'] | undefined;
  readonly usage?: { readonly promptTokens?: number; readonly completionTokens?: number } | undefined;
}

/**
 * A page that shows a job while it runs, and its figures for Prometheus, on a port of this machine.
 * @example
 * const watch = await JobWatch.open({ title: 'nightly', facts: [], port: 9464 });
 * watch.opened({ name: 'model', plan: [], activity: () => engine.activity() });
 * for await (const result of engine.generate(rows)) watch.answered(result);
 * await watch.close('finished');
 */
export class JobWatch {
  readonly #registry = new Registry();
  readonly #watch: Watch;
  readonly #server: HttpServer;
  #engine: WatchedEngine | undefined;
  #rows = { done: 0, failed: 0, kept: 0 };
  #expected: number | undefined;
  #active: number | undefined;
  #tokens = { prompt: 0, generated: 0 };
  #url = '';

  private constructor({ title, facts, host = HOST, apiKey }: JobWatchOptions) {
    this.#watch = new Watch({
      title,
      facts: () => facts,
      plan: () => this.#engine?.plan ?? [],
      rows: () => ({ ...this.#rows, active: this.#active, total: this.#expected }),
      tokens: () => this.#engine?.activity().tokens ?? this.#tokens,
      engines: () => this.#engines(),
    });
    this.#addMetrics();
    this.#server = new HttpServer(
      [...watchRoutes(this.#watch), metricsRoute(this.#registry), healthRoute],
      new Gate({ host, apiKey }),
      limitsOf({ connections: CONNECTIONS }),
      { answered: () => undefined, failed: () => undefined },
    );
  }

  /**
   * @throws UsageError for an address that is open to strangers without an `apiKey`, or where nobody can listen, and
   * for a key that can be guessed
   */
  static async open(options: JobWatchOptions): Promise<JobWatch> {
    const { host = HOST, port, apiKey } = options;
    if (!isLoopback(host) && apiKey === undefined)
      throw new UsageError(
        `watch: found ${host}, which others than this machine may reach, expected an API key beside it (the variable SPILLWAY_API_KEY)`,
      );
    if (apiKey !== undefined) checkKey('apiKey', apiKey);
    const watch = new JobWatch(options);
    watch.#url = `${await watch.#server.listen(host, port)}/`;
    watch.#watch.begin();
    return watch;
  }

  /** Where the page is. */
  get url(): string {
    return this.#url;
  }

  /** The engine is there. */
  opened(engine: WatchedEngine): void {
    this.#engine = engine;
    // It counts from when it is first asked.
    engine.activity();
  }

  /** @param total results that there will be, where that is known, `kept` of earlier runs among them */
  expects(total: number | undefined, kept = 0): void {
    this.#expected = total;
    this.#rows.kept = kept;
  }

  /** So many rows are under way. */
  active(rows: number): void {
    this.#active = rows;
  }

  /** A row has been answered. */
  answered({ id, error, usage }: WatchedResult): void {
    if (error) {
      this.#rows.failed++;
      this.#watch.rowFailed({ id, error });
    } else this.#rows.done++;
    this.#tokens.prompt += usage?.promptTokens ?? 0;
    this.#tokens.generated += usage?.completionTokens ?? 0;
  }

  /** Tells all who watch how it ended, and ends. */
  async close(state: Exclude<WatchState, 'running'>, reason?: string): Promise<void> {
    this.#active = undefined;
    this.#watch.end(state, reason);
    await this.#server.close(LINGER_SECONDS);
  }

  #engines(): ReadonlyMap<string, EngineActivity> {
    return new Map(this.#engine ? [[this.#engine.name, this.#engine.activity()]] : []);
  }

  /** As a server's, where they are the same. */
  #addMetrics(): void {
    const registry = this.#registry;
    registry.counter('spillway_rows_total', 'Rows that were answered, by source and outcome.', () => [
      [{ source: 'job', outcome: 'done' }, this.#rows.done],
      [{ source: 'job', outcome: 'failed' }, this.#rows.failed],
    ]);
    registry.counter('spillway_tokens_total', 'Tokens of rows that were answered, by kind.', () => [
      [{ kind: 'prompt' }, this.#tokens.prompt],
      [{ kind: 'generated' }, this.#tokens.generated],
    ]);
    registry.gauge('spillway_rows_active', 'Rows that are under way.', () => this.#active ?? 0);
    registry.gauge(
      'spillway_job_rows',
      'Results that there will be, where that is known (else NaN).',
      () => this.#expected ?? NaN,
    );
    registry.gauge('spillway_job_rows_kept', 'Results of earlier runs.', () => this.#rows.kept);
    registry.gauge(
      'spillway_job_seconds_left',
      'How long the job still takes, as far as that is known (else NaN).',
      () => this.#watch.latest?.left ?? NaN,
    );
    engineMetrics(registry, () => this.#engines());
    processMetrics(registry);
  }
}
