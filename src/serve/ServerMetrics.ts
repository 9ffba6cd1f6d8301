import { Registry } from '../metrics/Registry.js';
import type { EngineActivity } from '../RunStats.js';
import { engineMetrics, processMetrics } from './watch/engineMetrics.js';
import type { FailedRow } from './watch/WatchSource.js';

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** The counts of a server. Names are Prometheus': of a unit, with `_total` where they only grow. */
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

  /** The same in all. */
  readonly answered = { rows: { done: 0, failed: 0 }, tokens: { prompt: 0, generated: 0 } };

  /** @param read what is there when somebody looks */
  constructor(
    private readonly read: {
      readonly openRequests: () => number;
      readonly modelsOpen: () => readonly string[];
      readonly models: readonly string[];
      readonly batches: () => ReadonlyMap<string, number>;
      readonly storedBytes: () => number;
      readonly engines: () => ReadonlyMap<string, EngineActivity>;
      /** Told of each row that has failed. */
      readonly rowFailed: (row: FailedRow) => void;
    },
  ) {
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
    engineMetrics(registry, read.engines);
    processMetrics(registry);
  }

  /** A row has been answered. */
  rowAnswered(source: 'request' | 'batch', { id, error, usage }: AnsweredRow): void {
    this.answered.rows[error === undefined ? 'done' : 'failed'] += 1;
    this.answered.tokens.prompt += usage.promptTokens;
    this.answered.tokens.generated += usage.completionTokens;
    this.rows.add(1, { source, outcome: error === undefined ? 'done' : 'failed' });
    this.tokens.add(usage.promptTokens, { kind: 'prompt' });
    this.tokens.add(usage.completionTokens, { kind: 'generated' });
    if (error) this.read.rowFailed({ id, error });
  }
}

interface AnsweredRow {
  readonly id: string | number;
  readonly error?: FailedRow['error'] | undefined;
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number };
}
