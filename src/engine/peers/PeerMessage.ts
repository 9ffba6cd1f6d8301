import type { AttentionBy } from '../../model/dividedLayer.js';
import type { DeviceRow } from '../grid/Device.js';
import type { HeadOutput } from '../grid/Task.js';
import type { SharedPrefix } from '../memory/PageNumbers.js';
import type { PageCounts } from '../grid/pageCounts.js';
import type { Batch, RowId } from '../grid/Square.js';

/** The shape of an engine's slots. */
export interface BlockShape {
  readonly slots: number;
  readonly rowsPerSlot: number;
  readonly tokensPerSquare: number;
}

/**
 * The message that goes round the ring before anything else. The first engine states what it is and has; each of the
 * others checks that it fits, puts its own layers and its memory in, and sends it on; what comes back to the first one
 * holds for all.
 */
export interface BeginMessage {
  readonly kind: 'begin';
  /** The facts of the whole model; `contents`: of what is in its files (`ResultIdentity.model`). */
  readonly model: {
    readonly layers: number;
    readonly hiddenSize: number;
    readonly vocabularySize: number;
    readonly family: string;
    readonly contents: string;
  };
  /** The layer that the next engine has to begin with; `model.layers` once they are complete. */
  readonly nextLayer: number;
  /**
   * The shape of the run's slots: as many as every engine up to here has. The others must have been opened with no
   * fewer rows and tokens of a slot than the first one.
   */
  readonly grid: BlockShape;
  /** Engines up to here. */
  readonly engines: number;
  /** True where one of the engines brings weights from elsewhere in every sweep. */
  readonly streams: boolean;
  /**
   * How the KV cache is cut into pages, and what share of a row's pages lives on disk and on a GPU (default 0): the
   * same everywhere, but for `mostFetchedPages`.
   */
  readonly cache: {
    readonly pageTokens: number;
    readonly diskShare: number;
    readonly mostDiskPages: number;
    readonly gpuShare?: number;
    /**
     * Where a row's pages come to a GPU that has no place for them, or the first of them: the fewest in memory and on
     * disk of which an engine up to here has room for those that come. Default: any number.
     */
    readonly mostFetchedPages?: number;
  };
  /** Pages that every engine up to here has. */
  readonly pages: PageCounts;
  /** True where every engine up to here can have a page in the tables of several rows. */
  readonly sharesPages: boolean;
  /**
   * The share that the next engine has to have, and of how many, where engines share each layer; `of` once all are
   * here. `attention`: how it is divided, the same in all. Default `heads`.
   */
  readonly share?: { readonly next: number; readonly of: number; readonly attention?: AttentionBy };
}

/** A row was admitted, or a prefix of rows to come: each engine makes room for it as it grows. */
export interface OpenMessage {
  readonly kind: 'open';
  readonly row: RowId;
  readonly sequence: DeviceRow;
  /** Most tokens that will be sampled; 0 for a row that is only scored, and for a prefix. */
  readonly newTokens: number;
  /** Its tokens are computed for their keys and values alone: no head looks at them. Default false. */
  readonly prefix?: boolean;
  /** Where each engine attends to some rows: which one keeps this one's keys and values. */
  readonly keeper?: number;
  /** The row's pages that other rows have, too, or may have later. Default: none. */
  readonly sharing?: SharedPrefix;
}

/**
 * A page is kept for rows to come no longer: who held it has been closed, and who copied from it has been through every
 * layer.
 */
export interface FreeMessage {
  readonly kind: 'free';
  /** Its number. */
  readonly page: number;
}

/**
 * Batches that will come, announced before they are computed, so that weights and cache can be loaded ahead of them.
 */
export interface SweepMessage {
  readonly kind: 'sweep';
  /** In the order in which they come. */
  readonly batches: readonly Batch[];
  /**
   * No batch of the sweep waits for a token that another one of it samples: they can be computed layer by layer, so
   * that all of them share a layer's weights. Else batch by batch: waiting for a later one might be waiting for
   * oneself.
   */
  readonly interleaved: boolean;
}

/** The hidden states of a batch after the sender's last layer. */
export interface HiddenMessage {
  readonly kind: 'hidden';
  readonly pass: number;
  readonly slot: number;
  /**
   * [tokens, hiddenSize], row-major: the batch's ranges one after another, each token in order of position. The
   * receiver's from now on.
   */
  readonly hidden: Float32Array;
}

/**
 * The addition of an engine's share of a layer to the hidden states of a batch, in part or summed already, on its way
 * round the engines that share the layer: see `ringSum`. Where each attends to some rows, also what it has projected
 * for the others, and what they have attended to: see `ringExchange`.
 */
export interface PartialMessage {
  readonly kind: 'partial';
  readonly pass: number;
  readonly slot: number;
  readonly layer: number;
  /** The step of the sum: a batch has no two at once, and all of a slot come in order. */
  readonly step: number;
  /** The receiver's from now on. */
  readonly values: Float32Array;
}

/**
 * The last engine's findings for a batch; one message for every batch, also where none of its rows sampled or scored.
 */
export interface HeadMessage {
  readonly kind: 'head';
  readonly pass: number;
  readonly slot: number;
  readonly output: HeadOutput;
}

/** A row is over: no later batch holds it, and all that did have been through every layer. */
export interface CloseMessage {
  readonly kind: 'close';
  readonly row: RowId;
}

/** A prompt that another engine is to compute: all of its tokens but the last. */
export interface PromptMessage {
  readonly kind: 'prompt';
  /** Its number: none comes twice. */
  readonly row: number;
  readonly tokens: readonly number[];
  /** `DeviceRow.promptTokens` */
  readonly promptTokens: number;
}

/** Keys and values of a prompt, of whole pages one after another; those of a prompt follow each other. */
export interface PagesMessage {
  readonly kind: 'pages';
  readonly row: number;
  /** The first of these pages. */
  readonly first: number;
  /** None of the prompt's follows. */
  readonly last: boolean;
  /** As `NativeRuntime.readPages` copies them; none where the prompt does not fit. The receiver's from now on. */
  readonly values: Uint8Array;
}

/**
 * The messages of engines that share a model, in this order: `begin`; then for each row `open`, the `sweep`s that hold
 * it, their `hidden` states, `close`; and `free` for each page that rows shared. `head` goes from the last engine to
 * the first one; where engines share each layer, that one finds it itself, and `partial` sums go round instead. All of
 * it is plain data (maps and typed arrays included), as structured clones carry it. Where an engine of all layers
 * computes prompts for another: `begin`, once each way; `prompt`, and `pages` back.
 */
export type PeerMessage =
  | BeginMessage
  | OpenMessage
  | SweepMessage
  | HiddenMessage
  | PartialMessage
  | HeadMessage
  | CloseMessage
  | FreeMessage
  | PromptMessage
  | PagesMessage;

/** The messages that runs hear of: the others are data that tasks wait for. */
export type RunMessage = Exclude<PeerMessage, HiddenMessage | PartialMessage | PromptMessage | PagesMessage>;
