import type { DownloadRequest, DownloadSource, ModelDownload } from './ModelDownload.js';

/** How long the hub may take to answer a request before another source is tried. */
const ANSWER_SECONDS = 6;
/** How long a transfer may stand still. */
const STALL_SECONDS = 30;

/**
 * The Hugging Face hub through its own client library. Downloads can start in the middle.
 * `HF_ENDPOINT` names another hub (a mirror), as it does for Hugging Face's own tools.
 */
export const hubSource: DownloadSource = {
  name: 'Hugging Face hub',
  has: () => true,
  async open({ model, offset, signal }: DownloadRequest): Promise<ModelDownload> {
    // Loaded on demand: most runs find the model on disk, and start faster without the library.
    const { downloadFile } = await import('@huggingface/hub');
    const timed = new TimedFetch(signal);
    const endpoint = process.env['HF_ENDPOINT'];
    const file = await downloadFile({
      repo: { type: 'model', name: model.hub.repo },
      revision: model.hub.revision,
      path: model.hub.path,
      fetch: timed.fetch,
      // Plain ranged requests: one stream with back-pressure, no chunk cache in memory, and it can be resumed.
      xet: false,
      ...(endpoint === undefined || endpoint === '' ? {} : { hubUrl: endpoint.replace(/\/+$/, '') }),
    });
    if (file === null) throw new Error(`${model.hub.repo} has no file ${model.hub.path} at ${model.hub.revision}`);
    if (file.size !== model.bytes) throw new Error(`its file has ${file.size} bytes, expected ${model.bytes}`);
    const rest = offset > 0 ? file.slice(offset) : file;
    return { offset, chunks: timed.read(rest.stream()) };
  },
};

/** `fetch` that gives up when no answer comes, and a stream reader that gives up when no bytes come. */
class TimedFetch {
  readonly #controller = new AbortController();

  constructor(signal: AbortSignal) {
    if (signal.aborted) this.#controller.abort(signal.reason);
    else signal.addEventListener('abort', () => { this.#controller.abort(signal.reason); }, { once: true });
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const stop = this.#abortAfter(ANSWER_SECONDS, 'no answer');
    try {
      return await fetch(input, { ...init, signal: this.#controller.signal });
    } finally {
      stop();
    }
  };

  async *read(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = stream.getReader();
    try {
      for (;;) {
        const stop = this.#abortAfter(STALL_SECONDS, 'no data');
        const next = await this.#race(reader.read()).finally(stop);
        if (next.done) return;
        yield next.value;
      }
    } finally {
      // Also when the consumer stops early: the connection must not stay open behind its back.
      this.#controller.abort(new Error('the download was given up'));
      reader.releaseLock();
    }
  }

  /** The library's streams do not always pass an abort on, so the wait itself must end with it. */
  #race<T>(promise: Promise<T>): Promise<T> {
    const { signal } = this.#controller;
    return new Promise<T>((resolve, reject) => {
      const abort = (): void => { reject(new Error('the download was stopped', { cause: signal.reason })); };
      if (signal.aborted) { abort(); return; }
      signal.addEventListener('abort', abort, { once: true });
      promise.then(resolve, reject).finally(() => { signal.removeEventListener('abort', abort); });
    });
  }

  #abortAfter(seconds: number, what: string): () => void {
    const timer = setTimeout(() => { this.#controller.abort(new Error(`${what} within ${seconds} s`)); }, seconds * 1000);
    return () => { clearTimeout(timer); };
  }
}
