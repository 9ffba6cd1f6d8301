import { AsyncLocalStorage } from 'node:async_hooks';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { type Context, context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { Engine } from '../../src/Engine.js';
import { runJob } from '../../src/jobs/runJob.js';
import { serve } from '../../src/serve/serve.js';
import { startSpan } from '../../src/telemetry/spans.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const exporter = new InMemorySpanExporter();
let model: Awaited<ReturnType<typeof tinyChatModel>>;
let engine: Engine;
let folder: string;

/** As `@opentelemetry/context-async-hooks` and `W3CTraceContextPropagator` do. */
function register(): void {
  const store = new AsyncLocalStorage<Context>();
  context.setGlobalContextManager({
    active: () => store.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => store.run(active, () => work.call(self as never, ...args)),
    bind: (_, target) => target,
    enable() {
      return this;
    },
    disable() {
      return this;
    },
  });
  propagation.setGlobalPropagator({
    inject: () => undefined,
    fields: () => ['traceparent'],
    extract: (into, carrier: { readonly traceparent?: string }) => {
      const [, traceId, spanId] = carrier.traceparent?.split('-') ?? [];
      return traceId && spanId ? trace.setSpanContext(into, { traceId, spanId, traceFlags: 1, isRemote: true }) : into;
    },
  });
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
}

beforeAll(async () => {
  model = await tinyChatModel();
  engine = await Engine.open({ model: model.path });
  folder = mkdtempSync(join(tmpdir(), 'spillway-spans-'));
});

afterEach(() => {
  for (const api of [trace, context, propagation]) api.disable();
  exporter.reset();
});

afterAll(async () => {
  await engine.close();
  await model[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const spanOf = (name: string): ReadableSpan => {
  const found = exporter.getFinishedSpans().find((span) => span.name === name);
  if (!found)
    throw new Error(
      `no ${name} among ${exporter
        .getFinishedSpans()
        .map((span) => span.name)
        .join(', ')}`,
    );
  return found;
};

async function drain(results: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of results);
}

test('where nobody has registered a provider there is no span, and nobody is asked for its values', async () => {
  const never = (): never => {
    throw new Error('asked');
  };
  expect(startSpan(never, never)).toBeUndefined();
  await drain(engine.generate([{ prompt: 'a' }], { maxNewTokens: 1 }));
  expect(exporter.getFinishedSpans()).toEqual([]);
});

test('a call says what was asked, and what it took', async () => {
  register();
  const results = engine.generate([{ prompt: 'Once' }, { prompt: '', id: 'bad' }], {
    maxNewTokens: 3,
    temperature: 0.5,
    seed: 4,
    stop: ['zzz'],
  });
  await drain(results);
  const { tokens } = await results.stats;
  const { attributes, status, kind } = spanOf(`generate_content ${basename(model.path)}`);
  expect(attributes).toEqual({
    'gen_ai.operation.name': 'generate_content',
    'gen_ai.provider.name': 'spillway',
    'gen_ai.request.model': basename(model.path),
    'gen_ai.request.max_tokens': 3,
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.seed': 4,
    'gen_ai.request.stop_sequences': ['zzz'],
    'gen_ai.usage.input_tokens': tokens.prompt,
    'gen_ai.usage.output_tokens': tokens.generated,
    'gen_ai.usage.cache_read.input_tokens': 0,
    'spillway.rows.done': 1,
    'spillway.rows.failed': 1,
    'spillway.rows.cut': 1,
  });
  expect([status.code, kind]).toEqual([SpanStatusCode.UNSET, SpanKind.INTERNAL]);
  await drain(engine.embed([{ prompt: 'Once' }]));
  expect(spanOf(`embeddings ${basename(model.path)}`).attributes['spillway.rows.done']).toBe(1);
  await drain(engine.classify([{ prompt: 'Once', labels: ['a', 'b'] }]));
  expect(spanOf(`classify ${basename(model.path)}`).attributes['gen_ai.usage.output_tokens']).toBeGreaterThanOrEqual(0);
});

test('what fails says so', async () => {
  register();
  const ending = new AbortController();
  const rows = (async function* () {
    yield { prompt: 'Once' };
    ending.abort();
    yield { prompt: 'more' };
  })();
  await expect(drain(engine.generate(rows, { signal: ending.signal }))).rejects.toThrow(/interrupted/);
  const { attributes, status } = spanOf(`generate_content ${basename(model.path)}`);
  expect(attributes['error.type']).toBe('interrupted');
  expect(status.code).toBe(SpanStatusCode.ERROR);
});

test('a job has the call of its rows within', async () => {
  register();
  const output = join(folder, 'answers.jsonl');
  await runJob({ engine, input: [{ prompt: 'a' }, { prompt: 'b' }], output, generate: { maxNewTokens: 2 } });
  const job = spanOf('spillway.job');
  expect(job.attributes).toEqual({
    'spillway.task': 'generate',
    'spillway.rows': 2,
    'spillway.rows.done': 2,
    'spillway.rows.failed': 0,
    'spillway.rows.kept': 0,
  });
  expect(spanOf(`generate_content ${basename(model.path)}`).parentSpanContext?.spanId).toBe(job.spanContext().spanId);
});

test('a request goes on with the trace of who sends it, and has its call within', async () => {
  register();
  const models = [{ name: 'tiny', open: () => Engine.open({ model: model.path }) }];
  await using server = await serve({ models, data: join(folder, 'served'), port: 0 });
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const ask = async (body: object): Promise<number> => {
    const response = await fetch(`${server.url}/v1/completions?x=1`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent: `00-${traceId}-b7ad6b7169203331-01` },
      body: JSON.stringify(body),
    });
    await response.text();
    return response.status;
  };
  expect(await ask({ prompt: 'Once', max_tokens: 2 })).toBe(200);
  expect(await ask({ prompt: 'Once', max_tokens: -2 })).toBe(400);
  await server.close();
  const [request, refused] = exporter.getFinishedSpans().filter(({ name }) => name === 'POST /v1/completions');
  expect(request?.kind).toBe(SpanKind.SERVER);
  expect(request?.spanContext().traceId).toBe(traceId);
  expect(request?.attributes).toEqual({
    'http.request.method': 'POST',
    'http.route': '/v1/completions',
    'http.response.status_code': 200,
    'url.path': '/v1/completions',
    'url.scheme': 'http',
  });
  expect(refused?.attributes['http.response.status_code']).toBe(400);
  expect(refused?.status.code).toBe(SpanStatusCode.UNSET);
  expect(spanOf(`generate_content ${basename(model.path)}`).parentSpanContext?.spanId).toBe(
    request?.spanContext().spanId,
  );
});
