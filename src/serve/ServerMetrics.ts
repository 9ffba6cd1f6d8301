import { Registry } from '../metrics/Registry.js';

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What a server counts. Names are Prometheus': of a unit, with `_total` where they only grow. */
export class ServerMetrics {
  readonly registry = new Registry();
  readonly requests = this.registry.counter(
    'spillway_http_requests_total',
    'Requests that were answered, by route and status.',
  );
  readonly requestSeconds = this.registry.histogram(
    'spillway_http_request_seconds',
    'From a request to the end of its answer.',
    SECONDS,
  );
  readonly firstTokenSeconds = this.registry.histogram(
    'spillway_time_to_first_token_seconds',
    'From a request for text to what its answer begins with.',
    SECONDS,
  );
  readonly tokens = this.registry.counter(
    'spillway_tokens_total',
    'Tokens of rows that were answered, by kind: prompt, cached (of prompts, what was computed already) and generated.',
  );
  readonly rows = this.registry.counter(
    'spillway_rows_total',
    'Rows that were answered, by source (request, batch) and outcome (done, failed).',
  );
  readonly overloaded = this.registry.counter('spillway_overloaded_total', 'Requests that were refused with 429.');

  /** @param read what is there when somebody looks */
  constructor(read: {
    readonly openRequests: () => number;
    readonly modelsOpen: () => readonly string[];
    readonly models: readonly string[];
    readonly batches: () => ReadonlyMap<string, number>;
    readonly storedBytes: () => number;
  }) {
    const { registry } = this;
    registry.gauge('spillway_open_requests', 'Requests that a model is answering.', read.openRequests);
    registry.gauge('spillway_model_in_memory', 'Whether a model is in memory.', () => {
      const open = new Set(read.modelsOpen());
      return read.models.map((model) => [{ model }, open.has(model) ? 1 : 0] as const);
    });
    registry.gauge('spillway_batches', 'Batches, by status.', () =>
      [...read.batches()].map(([status, count]) => [{ status }, count] as const),
    );
    registry.gauge('spillway_stored_bytes', 'Bytes of files that are kept.', read.storedBytes);
    registry.gauge('process_resident_memory_bytes', 'Resident memory of the process.', () => process.memoryUsage.rss());
    registry.gauge('process_cpu_seconds_total', 'Processor time of the process.', () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    });
    registry.gauge('process_start_time_seconds', 'When the process began.', () => Date.now() / 1000 - process.uptime());
  }

  /** A row of a request has been answered. */
  rowAnswered(
    source: 'request' | 'batch',
    {
      error,
      usage,
    }: {
      readonly error?: unknown;
      readonly usage: { readonly promptTokens: number; readonly completionTokens: number };
    },
  ): void {
    this.rows.add(1, { source, outcome: error === undefined ? 'done' : 'failed' });
    this.tokens.add(usage.promptTokens, { kind: 'prompt' });
    this.tokens.add(usage.completionTokens, { kind: 'generated' });
  }
}
