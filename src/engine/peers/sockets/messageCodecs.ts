import { DEVICE_POOLINGS, type DeviceRow, type LogitAdjustments } from '../../grid/Device.js';
import { ATTENTION_BY } from '../../../model/dividedLayer.js';
import { BLOCK_LIMITS } from '../../../plan/Policy.js';
import type { PageCounts } from '../../grid/pageCounts.js';
import type { Batch, RowRange } from '../../grid/Square.js';
import type { HeadOutput, SampledToken } from '../../grid/Task.js';
import type { SharedPrefix } from '../../memory/PageNumbers.js';
import type { HiddenStates } from '../../grid/HiddenStates.js';
import type { BeginMessage, BlockShape, PeerMessage } from '../PeerMessage.js';
import {
  bfloats,
  floats,
  list,
  map,
  number,
  octets,
  oneOf,
  optional,
  record,
  text,
  truth,
  whole,
  wholeOrNone,
  type Codec,
} from './codecs.js';

/** Bytes of a name or a hash. */
const NAME_BYTES = 256;
/** Rows of a batch, each of which has a token in it. */
const MOST_ROWS = BLOCK_LIMITS.tokensPerSquare;

type Body<Kind extends PeerMessage['kind']> = Omit<Extract<PeerMessage, { readonly kind: Kind }>, 'kind'>;

/** Pairs of texts are an encoder's, which one engine computes; what else is missing such engines refuse. */
type SentRow = Omit<DeviceRow, 'grammar' | 'secondText' | 'certainty' | 'given'>;

const row: Codec<SentRow> = record<SentRow>({
  tokens: list(whole),
  capacityTokens: whole,
  promptTokens: optional(whole),
  temperature: number,
  topP: number,
  topK: whole,
  minP: number,
  repetitionPenalty: number,
  seed: whole,
  logprobs: wholeOrNone,
  adjustments: optional(
    record<LogitAdjustments>({
      presencePenalty: number,
      frequencyPenalty: number,
      biases: list(number),
      biasedTokens: list(whole),
      endTokens: list(whole),
      minNewTokens: whole,
      badWords: list(list(whole)),
    }),
  ),
  candidates: optional(list(whole)),
  pooling: optional(oneOf(...DEVICE_POOLINGS)),
});

export const block = record<BlockShape>({ slots: whole, rowsPerSlot: whole, tokensPerSquare: whole });

const batch = record<Batch>({
  pass: whole,
  slot: whole,
  rows: list(
    record<RowRange>({
      row: whole,
      firstPosition: whole,
      tokens: whole,
      head: oneOf('none', 'sample', 'score'),
      sharedTokens: optional(whole),
    }),
  ),
});

/** Without what formats and confidence bring, which engines that share a model's layers refuse. */
type Sampled = Omit<SampledToken, 'place' | 'failure' | 'forced' | 'certainty'>;

const output = record<HeadOutput>({
  sampled: map(
    whole,
    record<Sampled>({
      token: whole,
      notFinite: optional(record<NonNullable<Sampled['notFinite']>>({ layer: optional(whole) })),
      logprob: number,
      top: list(record<Sampled['top'][number]>({ token: whole, logprob: number })),
      embedding: optional(floats),
    }),
    MOST_ROWS,
  ),
  scored: map(whole, floats, MOST_ROWS),
});

type MessageCodecs = { readonly [Kind in PeerMessage['kind']]: Codec<Body<Kind>> };

/** The members of each kind of message in a frame. A member that a message gets does not compile without it. */
const CODECS: MessageCodecs = {
  begin: record<Body<'begin'>>({
    model: record<BeginMessage['model']>({
      layers: whole,
      hiddenSize: whole,
      vocabularySize: whole,
      family: text(NAME_BYTES),
      contents: text(NAME_BYTES),
    }),
    nextLayer: whole,
    grid: block,
    engines: whole,
    streams: truth,
    cache: record<BeginMessage['cache']>({
      pageTokens: whole,
      diskShare: number,
      mostDiskPages: whole,
      gpuShare: optional(number),
      mostFetchedPages: optional(whole),
    }),
    pages: record<PageCounts>({ gpu: whole, memory: whole, disk: whole }),
    sharesPages: truth,
    share: optional(
      record<NonNullable<BeginMessage['share']>>({
        next: whole,
        of: whole,
        attention: optional(oneOf(...ATTENTION_BY)),
      }),
    ),
  }),
  open: record<Body<'open'>>({
    row: whole,
    sequence: row,
    newTokens: whole,
    prefix: optional(truth),
    keeper: optional(whole),
    sharing: optional(
      record<SharedPrefix>({
        pages: list(whole),
        copy: optional(record<NonNullable<SharedPrefix['copy']>>({ page: whole, position: whole })),
        own: list(whole),
      }),
    ),
  }),
  sweep: record<Body<'sweep'>>({ batches: list(batch), interleaved: truth }),
  hidden: record<Body<'hidden'>>({ pass: whole, slot: whole, hidden: floats }),
  partial: record<Body<'partial'>>({ pass: whole, slot: whole, layer: whole, step: whole, values: floats }),
  head: record<Body<'head'>>({ pass: whole, slot: whole, output }),
  close: record<Body<'close'>>({ row: whole }),
  free: record<Body<'free'>>({ page: whole }),
  prompt: record<Body<'prompt'>>({ row: whole, tokens: list(whole), promptTokens: whole }),
  pages: record<Body<'pages'>>({ row: whole, first: whole, last: truth, values: octets }),
};

/** By what hidden states are sent as. */
export const MESSAGE_CODECS: Readonly<Record<HiddenStates, MessageCodecs>> = {
  float32: CODECS,
  bfloat16: { ...CODECS, hidden: record<Body<'hidden'>>({ pass: whole, slot: whole, hidden: bfloats }) },
};
