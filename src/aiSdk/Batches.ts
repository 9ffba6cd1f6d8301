import { writeFile } from 'node:fs/promises';
import type {
  Experimental_BatchV4,
  Experimental_BatchV4CancelResult,
  Experimental_BatchV4ItemResult,
  Experimental_BatchV4ListOptions,
  Experimental_BatchV4ListResult,
  Experimental_BatchV4OperationOptions,
  Experimental_BatchV4StartOptions,
  Experimental_BatchV4StartResult,
  Experimental_BatchV4Status,
  SharedV4Warning,
} from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { CHAT } from '../jobs/formats/openaiRequest.js';
import { isOver, type KeptBatch, newBatch } from '../serve/batches/Batch.js';
import { BatchRunner } from '../serve/batches/BatchRunner.js';
import { ApiError } from '../serve/http/ApiError.js';
import { openStores, type Stores } from '../serve/openStores.js';
import { limitsOf } from '../serve/ServeOptions.js';
import { batchItems } from './batchItems.js';
import { chatRequest } from './chatRequest.js';
import type { Engines } from './Engines.js';
import { PROVIDER, UnsupportedError, wrongArgument } from './errors.js';
import { mostTokens } from './LanguageModel.js';

type StartOptions = Experimental_BatchV4StartOptions<{ readonly text: string }>;

/** The contents once the folder is there: its batches, which go on. */
interface OpenBatches extends Pick<Stores, 'batches' | 'files'> {
  readonly runner: BatchRunner;
  close(): Promise<void>;
}

const DAY_SECONDS = 86_400;
const [USUAL_PAGE, MOST_PAGE] = [20, 10_000];

/** Batches of prompts, as jobs on disk: those that a process has left go on with the first call of the next one. */
export class Batches implements Experimental_BatchV4<{ readonly text: string }> {
  readonly specificationVersion = 'v4';
  readonly provider = PROVIDER;
  readonly supportedUrls = {};
  #open: Promise<OpenBatches> | undefined;

  constructor(
    private readonly folder: string,
    private readonly engines: () => Engines,
  ) {}

  async doStartBatch(options: StartOptions): Promise<Experimental_BatchV4StartResult> {
    const { requests, webhookUrl, abortSignal: signal } = options;
    const warnings: { requestId?: string; warning: SharedV4Warning }[] = [];
    if (webhookUrl !== undefined) warnings.push({ warning: { type: 'unsupported', feature: 'webhookUrl' } });
    const [modelId, lines] = linesOf(requests, (requestId, warning) => warnings.push({ requestId, warning }));
    const engines = this.engines();
    const maxNewTokens = await engines.with(modelId, { signal, prompt: requests }, async (engine) =>
      mostTokens(engine),
    );
    const { batches, runner } = await this.#opened();
    const asked = { endpoint: CHAT, input_file_id: '', completion_window: '365d', metadata: null };
    const told = { reasoning: 'separate', schemaInPrompt: true, maxNewTokens } as const;
    const kept = newBatch(asked, 365 * DAY_SECONDS, told);
    const { id } = kept.batch;
    await batches.make(id);
    try {
      await writeFile(batches.pathOf(id, 'input.jsonl'), lines);
      signal?.throwIfAborted();
      await batches.keep(kept);
    } catch (error) {
      await batches.forget(id);
      throw error;
    }
    runner.wake();
    return { batchId: id, ...statusOf(kept), warnings };
  }

  async doGetBatchStatus({ batchId }: Experimental_BatchV4OperationOptions): Promise<Experimental_BatchV4Status> {
    return statusOf(keptOf(await this.#opened(), batchId));
  }

  async doGetBatchResults({
    batchId,
    abortSignal: signal,
  }: Experimental_BatchV4OperationOptions): Promise<ReadableStream<Experimental_BatchV4ItemResult>> {
    const opened = await this.#opened();
    const { batch } = keptOf(opened, batchId);
    if (!isOver(batch) || batch.status === 'failed')
      throw wrongArgument('batchId', `batchId: found a batch that is ${batch.status}, expected one that has ended`);
    const paths = [batch.output_file_id, batch.error_file_id].flatMap((id) =>
      id === null ? [] : [opened.files.pathOf({ id })],
    );
    return ReadableStream.from(batchItems(paths, signal));
  }

  async doCancelBatch({ batchId }: Experimental_BatchV4OperationOptions): Promise<Experimental_BatchV4CancelResult> {
    const opened = await this.#opened();
    const { batch, ending } = keptOf(opened, batchId);
    if (isOver(batch) && batch.status !== 'cancelled')
      throw wrongArgument('batchId', `batchId: found a batch that is ${batch.status}, expected one that is on its way`);
    if (ending === undefined) await opened.runner.cancel(batchId);
    return {};
  }

  async doListBatches({
    limit = USUAL_PAGE,
    cursor,
  }: Experimental_BatchV4ListOptions = {}): Promise<Experimental_BatchV4ListResult> {
    if (!(Number.isInteger(limit) && limit >= 1 && limit <= MOST_PAGE))
      throw wrongArgument('limit', `limit: found ${found(limit)}, expected a whole number from 1 to ${MOST_PAGE}`);
    const { batches } = await this.#opened();
    const all = batches.list();
    const at = cursor === undefined ? -1 : all.findIndex(({ id }) => id === cursor);
    if (cursor !== undefined && at < 0)
      throw wrongArgument('cursor', `cursor: found ${found(cursor)}, expected the nextCursor of a page before`);
    const page = all.slice(at + 1, at + 1 + limit);
    const last = page.at(-1);
    return {
      batches: page.map(({ id }) => ({ batchId: id, ...statusOf(batches.get(id)) })),
      ...(last && at + 1 + limit < all.length && { nextCursor: last.id }),
    };
  }

  /** Stops them, to go on later. */
  async close(): Promise<void> {
    const opened = await this.#open?.catch(() => undefined);
    this.#open = undefined;
    await opened?.close();
  }

  #opened(): Promise<OpenBatches> {
    const opening = (this.#open ??= openBatches(this.folder, this.engines()));
    opening.catch(() => (this.#open = undefined));
    return opening;
  }
}

async function openBatches(folder: string, { models }: Engines): Promise<OpenBatches> {
  const limits = limitsOf({});
  const { batches, files, release } = await openStores(folder, { limits });
  const runner = new BatchRunner(
    batches,
    files,
    { models, limits, metrics: () => ({ rowAnswered: () => undefined }) },
    () => undefined,
  );
  runner.wake();
  const close = async (): Promise<void> => {
    await runner.stop();
    release();
  };
  return { batches, files, runner, close };
}

/** The requests as lines of a batch file, which are all for one model. @throws as `chatRequest` */
function linesOf(
  requests: StartOptions['requests'],
  warn: (requestId: string, warning: SharedV4Warning) => void,
): readonly [modelId: string, lines: readonly string[]] {
  if (!Array.isArray(requests) || requests.length === 0)
    throw wrongArgument('requests', `requests: found ${found(requests)}, expected an array of at least one`);
  const given = requests as StartOptions['requests'];
  const ids = new Set<string>();
  const modelId = given[0]?.modelId ?? '';
  const lines = given.map((request, at) => {
    const where = `requests[${at}]`;
    const { id, type } = request;
    if (type !== 'text')
      throw new UnsupportedError(
        `a batch of ${type}`,
        wrongArgument('requests', `${where}.type: found ${found(type)}, expected text`),
      );
    if (typeof id !== 'string' || id === '' || ids.has(id))
      throw wrongArgument('requests', `${where}.id: found ${found(id)}, expected a text that no other request has`);
    ids.add(id);
    if (typeof request.modelId !== 'string' || request.modelId === '' || request.modelId !== modelId)
      throw wrongArgument(
        'requests',
        `${where}.modelId: found ${found(request.modelId)}, expected one model for all requests of a batch`,
      );
    const { body, call, warnings } = chatRequest(request.options);
    const [own] = Object.keys(call);
    if (own !== undefined)
      throw wrongArgument(
        'providerOptions',
        `${where}.providerOptions.${PROVIDER}: found ${found(own)}, which is a call's, expected none in a batch`,
      );
    for (const warning of warnings) warn(id, warning);
    return `${JSON.stringify({ custom_id: id, method: 'POST', url: CHAT, body: { model: modelId, ...body } })}\n`;
  });
  return [modelId, lines];
}

/** @throws InvalidArgumentError for an id that none has */
function keptOf({ batches }: OpenBatches, id: string): KeptBatch {
  try {
    return batches.get(id);
  } catch (error) {
    if (error instanceof ApiError)
      throw wrongArgument('batchId', `batchId: found ${found(id)}, ${error.message}`, error);
    throw error;
  }
}

/** Where a batch is, in the words of the AI SDK; one that was cancelled has results, too. */
function statusOf({ batch }: KeptBatch): Experimental_BatchV4Status {
  const { total, completed, failed } = batch.request_counts;
  const [problem] = batch.errors?.data ?? [];
  return {
    status: batch.status === 'failed' ? 'failed' : isOver(batch) ? 'completed' : 'pending',
    rawStatus: batch.status,
    requestCounts: { total, completed, failed, pending: Math.max(0, total - completed - failed) },
    createdAt: new Date(batch.created_at * 1000).toISOString(),
    expiresAt: new Date(batch.expires_at * 1000).toISOString(),
    ...(problem && { error: { message: problem.message, code: problem.code } }),
  };
}
