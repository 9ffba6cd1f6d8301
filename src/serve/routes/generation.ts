import { randomBytes } from 'node:crypto';
import { CHAT, COMPLETIONS } from '../../jobs/formats/openaiRequest.js';
import type { RowResult } from '../../Row.js';
import { isCutByLimit } from '../../rows/cutOff.js';
import { ApiError, apiErrorOf, sendJson } from '../http/ApiError.js';
import { ClientGone, EventStream } from '../http/EventStream.js';
import type { Exchange } from '../http/Exchange.js';
import type { Route } from '../http/HttpServer.js';
import type { ModelLease } from '../models/Models.js';
import { type AnswerHead, usageOf, wholeAnswer } from '../requests/answers.js';
import { AnswerChunks } from '../requests/AnswerChunks.js';
import { type GenerationRequest, modelOf, objectOf, readGeneration, rowProblem } from '../requests/readRequest.js';
import { PRIORITIES, type Served } from '../Served.js';
import type { ServedResults } from '../ServeOptions.js';

/** A stream whose row has no place yet begins all the same after so long: others would take the connection for dead. */
const BEGIN_MILLISECONDS = 10_000;

/** `/v1/chat/completions` and `/v1/completions`. */
export function generationRoutes(served: Served): readonly Route[] {
  return [CHAT, COMPLETIONS].map((url) => ({
    method: 'POST',
    path: new RegExp(`^${url}$`),
    name: url,
    answer: (exchange) => answerGeneration(served, exchange, url),
  }));
}

async function answerGeneration(served: Served, exchange: Exchange, url: string): Promise<void> {
  const begun = performance.now();
  const body = objectOf(await exchange.json());
  const model = served.model(modelOf(body));
  const request = readGeneration(url, body, served.limits);
  const head = {
    id: `${request.text ? 'cmpl' : 'chatcmpl'}-${randomBytes(16).toString('hex')}`,
    created: Math.floor(Date.now() / 1000),
    model: model.name,
  };
  await served.with(model, exchange, async (lease) => {
    const { engine } = lease;
    const results = engine.generate(request.rows, {
      ...served.defaults,
      ...(request.logprobs !== undefined && { logprobs: request.logprobs }),
      order: 'completion',
      signal: exchange.signal,
      priority: PRIORITIES.request,
    });
    const first = (): void => served.metrics().firstTokenSeconds.observe((performance.now() - begun) / 1000);
    const counted = new CountedResults(results, served, first);
    if (request.stream) await streamAnswer(exchange, served, { head, request, counted, lease });
    else await sendWhole(exchange, { head, request, counted, lease });
  });
}

interface Work {
  readonly head: AnswerHead;
  readonly request: GenerationRequest;
  readonly counted: CountedResults;
  readonly lease: ModelLease;
}

async function sendWhole(exchange: Exchange, { head, request, counted, lease }: Work): Promise<void> {
  for await (const event of counted.events()) {
    if (event.type === 'result' && event.result.error) throw rowProblem(event.result.error);
  }
  const usage = usageOf(counted.results, await counted.saved());
  sendJson(exchange.response, 200, wholeAnswer(head, request, counted.results, usage, lease.engine.tokenizer));
}

async function streamAnswer(
  exchange: Exchange,
  { limits }: Served,
  { head, request, counted, lease }: Work,
): Promise<void> {
  const { response } = exchange;
  const chunks = new AnswerChunks(head, request, lease.engine.tokenizer);
  let stream: EventStream | undefined;
  const begin = (): EventStream => (stream ??= new EventStream(response, limits.stallSeconds));
  const timer = setTimeout(() => {
    if (!response.destroyed && !response.headersSent) begin();
  }, BEGIN_MILLISECONDS);
  try {
    for await (const event of counted.events()) {
      if (event.type === 'result' && event.result.error) throw rowProblem(event.result.error);
      const parts = event.type === 'delta' ? chunks.grown(event.delta) : chunks.ended(event.result);
      for (const part of parts) await begin().send(part);
    }
    if (request.includeUsage) await begin().send(chunks.usage(usageOf(counted.results, await counted.saved())));
    await begin().send('[DONE]');
    begin().end();
  } catch (error) {
    const reason = exchange.reasonOf(error);
    // What is refused before anything was sent has a status of its own.
    if (!stream || reason instanceof ClientGone) throw reason;
    await stream.send(apiErrorOf(reason).body);
    stream.end();
    if (!(reason instanceof ApiError)) throw reason;
  } finally {
    clearTimeout(timer);
  }
}

/** The results of a request, as metrics count them. */
class CountedResults {
  readonly results: RowResult[] = [];

  constructor(
    private readonly all: ServedResults,
    private readonly served: Served,
    private readonly first: () => void,
  ) {}

  async *events(): ReturnType<ServedResults['events']> {
    let begun = false;
    for await (const event of this.all.events()) {
      if (!begun) this.first();
      begun = true;
      if (event.type === 'delta') yield event;
      else {
        this.served.metrics().rowAnswered('request', event.result);
        const result = asLength(event.result);
        this.results.push(result);
        yield { type: 'result', result };
      }
    }
  }

  /** Tokens of prompts that were computed already. */
  async saved(): Promise<number> {
    const { sharing } = await this.all.stats;
    this.served.metrics().tokens.add(sharing.promptTokensSaved, { kind: 'cached' });
    return sharing.promptTokensSaved;
  }
}

/** To OpenAI's clients an answer that its limit has cut off is one whose end is missing, whatever it was held to. */
function asLength({ error, ...answer }: RowResult): RowResult {
  if (!error) return answer;
  return isCutByLimit(error) ? { ...answer, finishReason: 'length' } : { ...answer, error };
}
