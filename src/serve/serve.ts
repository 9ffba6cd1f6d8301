import { UsageError } from '../errors/UsageError.js';
import { BatchRunner } from './batches/BatchRunner.js';
import { Gate, isLoopback } from './http/Gate.js';
import { HttpServer } from './http/HttpServer.js';
import { Models } from './models/Models.js';
import { openStores } from './openStores.js';
import { batchRoutes } from './routes/batches.js';
import { embeddingsRoute } from './routes/embeddings.js';
import { fileRoutes } from './routes/files.js';
import { generationRoutes } from './routes/generation.js';
import { rerankRoute } from './routes/rerank.js';
import { statusRoutes } from './routes/status.js';
import { Served } from './Served.js';
import { ServerMetrics } from './ServerMetrics.js';
import { Watch } from './watch/Watch.js';
import { watchRoutes } from './watch/watchRoutes.js';
import { checkServeOptions, limitsOf, type ServeOptions } from './ServeOptions.js';

/** A server that answers. */
export interface SpillwayServer extends AsyncDisposable {
  /** Where it is, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /**
   * Stops it: no new request is answered, open ones end or are told that they do not, batches go on with the next
   * server, models are freed. Idempotent.
   */
  close(): Promise<void>;
  /** Resolves when it has been stopped, by `close` or by its signal. */
  readonly closed: Promise<void>;
}

const [HOST, PORT] = ['127.0.0.1', 8080];

/**
 * Serves models over HTTP, as OpenAI's API has it: chats, completions, embeddings, files and batches, and reranking.
 * Requests join one run of a model, beside its batches, which they come before. Batches that were on their way when a
 * server ended, however it did, go on with the next one that has the same `data`.
 *
 * @throws UsageError for options out of range, for an address that is open to strangers without an `apiKey`, or where
 * nobody can listen, and where another server has the same `data`; what opening the first model throws
 */
export async function serve(options: ServeOptions): Promise<SpillwayServer> {
  checkServeOptions(options);
  const {
    host = HOST,
    port = PORT,
    data,
    apiKey,
    signal,
    generate: told = {},
    onMessage: say = () => undefined,
  } = options;
  if (!isLoopback(host) && apiKey === undefined)
    throw new UsageError(
      `host: found ${host}, which others than this machine may reach, expected an apiKey beside it (--api-key-file, or SPILLWAY_API_KEY)`,
    );
  const limits = limitsOf(options);
  const { files, batches, release } = await openStores(data, { limits, signal, say });
  const models = new Models(options.models, options.modelsInMemory);
  try {
    const served: Served = new Served(models, limits, told, () => metrics);
    const metrics = new ServerMetrics({
      openRequests: () => served.openRequests,
      modelsOpen: () => models.open,
      models: models.names,
      batches: () => batches.counts(),
      storedBytes: () => files.bytes,
      engines: () => models.activities(),
      rowFailed: (row) => watch.rowFailed(row),
    });
    const watch: Watch = new Watch({
      title: `spillway serve: ${models.names.join(', ')}`,
      facts: () => [
        ['Models', models.names.join(', ')],
        ['In memory', models.open.join(', ') || 'none'],
        ['Open requests', String(served.openRequests)],
        ['Batches', [...batches.counts()].map(([status, count]) => `${count} ${status}`).join(', ') || 'none'],
        ['Data', data],
      ],
      plan: () => models.plans(),
      rows: () => ({ ...metrics.answered.rows, active: served.openRequests }),
      tokens: () => metrics.answered.tokens,
      engines: () => models.activities(),
    });
    const runner = new BatchRunner(batches, files, served, say);
    const server = new HttpServer(
      [
        ...generationRoutes(served),
        embeddingsRoute(served),
        rerankRoute(served),
        ...fileRoutes(files),
        ...batchRoutes({ batches, files, runner, told }),
        ...watchRoutes(watch),
        ...statusRoutes(served, metrics.registry, Math.floor(Date.now() / 1000)),
      ],
      new Gate({ host, apiKey, allowedHosts: options.allowedHosts, allowedOrigins: options.allowedOrigins }),
      limits,
      {
        answered: (route, status, seconds) => {
          metrics.requests.add(1, { route, status: String(status) });
          metrics.requestSeconds.observe(seconds);
        },
        failed: (route, error) =>
          say(`${route}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`),
      },
    );
    // So that a model that cannot be opened is told of now.
    const first = models.find(models.names[0]);
    if (first) (await models.lease(first, signal ?? new AbortController().signal)).release();
    const url = await server.listen(host, port);
    watch.begin();
    runner.wake();
    let closing: Promise<void> | undefined;
    const close = (): Promise<void> =>
      (closing ??= (async () => {
        watch.end('stopped');
        const answers = server.close(limits.drainSeconds);
        await runner.stop();
        await answers;
        await models.close();
        release();
      })());
    const closed = new Promise<void>((resolve, reject) => {
      const end = (): void => void close().then(resolve, reject);
      if (signal?.aborted === true) end();
      else signal?.addEventListener('abort', end, { once: true });
    });
    closed.catch(() => undefined);
    return {
      url,
      close,
      closed,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await models.close();
    release();
    throw error;
  }
}
