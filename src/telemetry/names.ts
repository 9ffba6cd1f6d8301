/**
 * All names that spans and their attributes have. Those of `gen_ai`, `http`, `url`, `server` and `error` are
 * OpenTelemetry's conventions, of which the first still change; the rest is ours.
 */
export const SPAN_NAMES = {
  /** The names that the conventions give an operation, or that we give it; the model's name follows. */
  call: {
    generate: 'generate_content',
    classify: 'classify',
    score: 'score',
    rerank: 'rerank',
    embed: 'embeddings',
  },
  job: 'spillway.job',
} as const;

export const ATTRIBUTES = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  model: 'gen_ai.request.model',
  maxTokens: 'gen_ai.request.max_tokens',
  temperature: 'gen_ai.request.temperature',
  topP: 'gen_ai.request.top_p',
  topK: 'gen_ai.request.top_k',
  seed: 'gen_ai.request.seed',
  stop: 'gen_ai.request.stop_sequences',
  presencePenalty: 'gen_ai.request.presence_penalty',
  frequencyPenalty: 'gen_ai.request.frequency_penalty',
  choices: 'gen_ai.request.choice.count',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cachedTokens: 'gen_ai.usage.cache_read.input_tokens',
  priority: 'spillway.priority',
  rowsDone: 'spillway.rows.done',
  rowsFailed: 'spillway.rows.failed',
  rowsCut: 'spillway.rows.cut',
  rows: 'spillway.rows',
  rowsKept: 'spillway.rows.kept',
  task: 'spillway.task',
  errorType: 'error.type',
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
  path: 'url.path',
  scheme: 'url.scheme',
} as const;

/** The value of `gen_ai.provider.name`, and the name of the tracer. */
export const TRACER = 'spillway';
