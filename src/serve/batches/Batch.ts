import { randomBytes } from 'node:crypto';
import type { GenerateOptions } from '../../Row.js';
import { newFileId } from '../files/FileStore.js';

/** Where a batch is on its way. */
export type BatchStatus =
  'validating' | 'failed' | 'in_progress' | 'finalizing' | 'completed' | 'expired' | 'cancelling' | 'cancelled';

export type BatchEnding = 'completed' | 'cancelled' | 'expired';

export interface BatchProblem {
  readonly code: string;
  readonly message: string;
  readonly param: string | null;
  readonly line: number | null;
}

/** A batch as OpenAI describes one. */
export interface Batch {
  readonly id: string;
  readonly object: 'batch';
  readonly endpoint: string;
  readonly model: string | null;
  readonly errors: { readonly object: 'list'; readonly data: readonly BatchProblem[] } | null;
  readonly input_file_id: string;
  readonly completion_window: string;
  readonly status: BatchStatus;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly created_at: number;
  readonly in_progress_at: number | null;
  readonly expires_at: number;
  readonly finalizing_at: number | null;
  readonly completed_at: number | null;
  readonly failed_at: number | null;
  readonly expired_at: number | null;
  readonly cancelling_at: number | null;
  readonly cancelled_at: number | null;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** A batch as it stands on disk: what is shown of it, and what a server that goes on with it has to know. */
export interface KeptBatch {
  readonly format: 'spillway-batch';
  readonly version: 1;
  readonly batch: Batch;
  /** The ids of the files that it will have made. */
  readonly files: { readonly output: string; readonly errors: string };
  /** The options for its rows that say nothing themselves: as they were when the batch was made. */
  readonly told: GenerateOptions;
  /** How it ends, once that is known; until its files are made of that, it is not over. */
  readonly ending?: BatchEnding;
  /** The model that answered its first rows: all are answered by the same. Undefined before. */
  readonly answeredBy?: { readonly modelFiles: readonly string[]; readonly resultIdentity: object };
}

/** Such ids alone are looked for: no other text gets as far as a path. */
export const BATCH_ID = /^batch_[0-9a-f]{32}$/;

export function now(): number {
  return Math.floor(Date.now() / 1000);
}

export function newBatch(
  asked: Pick<Batch, 'endpoint' | 'input_file_id' | 'completion_window' | 'metadata'>,
  seconds: number,
  told: GenerateOptions,
): KeptBatch {
  const created = now();
  return {
    format: 'spillway-batch',
    version: 1,
    told,
    files: { output: newFileId(), errors: newFileId() },
    batch: {
      id: `batch_${randomBytes(16).toString('hex')}`,
      object: 'batch',
      endpoint: asked.endpoint,
      model: null,
      errors: null,
      input_file_id: asked.input_file_id,
      completion_window: asked.completion_window,
      status: 'validating',
      output_file_id: null,
      error_file_id: null,
      created_at: created,
      in_progress_at: null,
      expires_at: created + seconds,
      finalizing_at: null,
      completed_at: null,
      failed_at: null,
      expired_at: null,
      cancelling_at: null,
      cancelled_at: null,
      request_counts: { total: 0, completed: 0, failed: 0 },
      metadata: asked.metadata,
    },
  };
}

/** Tells whether nothing is left to be done for a batch. */
export function isOver({ status }: Pick<Batch, 'status'>): boolean {
  return status === 'completed' || status === 'failed' || status === 'expired' || status === 'cancelled';
}
