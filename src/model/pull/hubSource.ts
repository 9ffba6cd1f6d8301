import { TimedFetch } from './TimedFetch.js';
import type { DownloadRequest, DownloadSource, ModelDownload } from './ModelDownload.js';

/** A hub that does not answer soon is given up for another source. */
const PATIENCE = { answer: 6, stall: 30 };

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
    const timed = new TimedFetch(signal, PATIENCE);
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
