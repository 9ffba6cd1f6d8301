import { DEVICE_POOLINGS } from '../grid/Device.js';
import { types } from 'node:util';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { ATTENTION_BY } from '../../model/dividedLayer.js';
import { PeerError } from '../../errors/engineErrors.js';
import type { PeerMessage } from './PeerMessage.js';

type Fields = Readonly<Record<string, unknown>>;

const HEADS: readonly unknown[] = ['none', 'sample', 'score'];
const ATTENTION: readonly unknown[] = ATTENTION_BY;
const POOLINGS: readonly unknown[] = DEVICE_POOLINGS;

/**
 * Checks each kind of message for what it has to have; what goes beyond that is left alone. Whether it fits this engine
 * and this run is for others to say.
 */
const KINDS: Readonly<Record<PeerMessage['kind'], (message: Fields) => void>> = {
  begin({ model, nextLayer, grid, engines, streams, cache, pages, sharesPages, share }) {
    const { family, contents } = wholes('begin.model', model, 'layers', 'hiddenSize', 'vocabularySize');
    if (typeof family !== 'string') throw wrong('begin.model.family', family, 'a name');
    if (typeof contents !== 'string') throw wrong('begin.model.contents', contents, 'a hash');
    whole('begin.nextLayer', nextLayer);
    wholes('begin.grid', grid, 'slots', 'rowsPerSlot', 'tokensPerSquare');
    whole('begin.engines', engines, 1);
    truth('begin.streams', streams);
    const { diskShare, gpuShare, mostFetchedPages } = wholes('begin.cache', cache, 'pageTokens', 'mostDiskPages');
    number('begin.cache.diskShare', diskShare);
    if (gpuShare !== undefined) number('begin.cache.gpuShare', gpuShare);
    if (mostFetchedPages !== undefined) whole('begin.cache.mostFetchedPages', mostFetchedPages, 1);
    wholes('begin.pages', pages, 'gpu', 'memory', 'disk');
    truth('begin.sharesPages', sharesPages);
    if (share === undefined) return;
    const { attention } = wholes('begin.share', share, 'next', 'of');
    if (attention !== undefined && !ATTENTION.includes(attention))
      throw wrong('begin.share.attention', attention, ATTENTION_BY.join(' or '));
  },
  open({ row, sequence, newTokens, prefix = false, keeper, sharing }) {
    whole('open.row', row);
    if (keeper !== undefined) whole('open.keeper', keeper);
    whole('open.newTokens', newTokens);
    truth('open.prefix', prefix);
    if (prefix === true && newTokens !== 0) throw wrong('open.newTokens', newTokens, '0 for a prefix');
    if (sharing !== undefined) checkSharing(object('open.sharing', sharing));
    const { tokens, promptTokens, logprobs, adjustments, candidates, pooling, ...rest } = wholes(
      'open.sequence',
      sequence,
      'capacityTokens',
      'topK',
      'seed',
    );
    allWhole('open.sequence.tokens', tokens);
    if (promptTokens !== undefined) whole('open.sequence.promptTokens', promptTokens);
    whole('open.sequence.logprobs', logprobs, -1);
    if (adjustments !== undefined) checkAdjustments(object('open.sequence.adjustments', adjustments));
    if (candidates !== undefined) allWhole('open.sequence.candidates', candidates);
    if (pooling !== undefined && !POOLINGS.includes(pooling))
      throw wrong('open.sequence.pooling', pooling, DEVICE_POOLINGS.join(', '));
    for (const name of ['temperature', 'topP', 'minP', 'repetitionPenalty'])
      number(`open.sequence.${name}`, rest[name]);
  },
  sweep({ batches, interleaved }) {
    truth('sweep.interleaved', interleaved);
    for (const batch of list('sweep.batches', batches)) {
      const { rows } = wholes('sweep.batches', batch, 'pass', 'slot');
      for (const range of list('sweep.batches.rows', rows)) {
        const { head, sharedTokens } = wholes('sweep.batches.rows', range, 'row', 'firstPosition', 'tokens');
        if (sharedTokens !== undefined) whole('sweep.batches.rows.sharedTokens', sharedTokens);
        if (!HEADS.includes(head)) throw wrong('sweep.batches.rows.head', head, 'none, sample or score');
      }
    }
  },
  hidden(message) {
    const { hidden } = wholes('hidden', message, 'pass', 'slot');
    if (!types.isFloat32Array(hidden)) throw wrong('hidden.hidden', hidden, 'a Float32Array');
  },
  partial(message) {
    const { values } = wholes('partial', message, 'pass', 'slot', 'layer', 'step');
    if (!types.isFloat32Array(values)) throw wrong('partial.values', values, 'a Float32Array');
  },
  head(message) {
    const { output } = wholes('head', message, 'pass', 'slot');
    const { sampled, scored } = object('head.output', output);
    for (const [row, each] of entries('head.output.sampled', sampled)) {
      whole('head.output.sampled', row);
      const { logprob, top, embedding } = wholes('head.output.sampled', each, 'token');
      number('head.output.sampled.logprob', logprob);
      if (embedding !== undefined && !types.isFloat32Array(embedding))
        throw wrong('head.output.sampled.embedding', embedding, 'a Float32Array');
      for (const other of list('head.output.sampled.top', top))
        number('head.output.sampled.top.logprob', wholes('head.output.sampled.top', other, 'token')['logprob']);
    }
    for (const [row, scores] of entries('head.output.scored', scored)) {
      whole('head.output.scored', row);
      if (!types.isFloat32Array(scores)) throw wrong('head.output.scored', scores, 'Float32Arrays');
    }
  },
  close({ row }) {
    whole('close.row', row);
  },
  free({ page }) {
    whole('free.page', page);
  },
  prompt(message) {
    const { tokens } = wholes('prompt', message, 'row', 'promptTokens');
    allWhole('prompt.tokens', tokens);
  },
  pages(message) {
    const { last, values } = wholes('pages', message, 'row', 'first');
    truth('pages.last', last);
    if (!types.isUint8Array(values)) throw wrong('pages.values', values, 'a Uint8Array');
  },
};

/**
 * Looks at what came from a peer, which may be another program than this one, or none of good will: that it is a
 * message, and its fields are what they are said to be.
 * @throws PeerError naming the field, what was found and what was expected
 */
export function checkMessage(value: unknown): PeerMessage {
  const message = object('message', value);
  const { kind } = message;
  if (typeof kind !== 'string' || !Object.hasOwn(KINDS, kind))
    throw wrong('message.kind', kind, Object.keys(KINDS).join(', '));
  KINDS[kind as PeerMessage['kind']](message);
  return message as unknown as PeerMessage;
}

function checkAdjustments(adjustments: Fields): void {
  const name = 'open.sequence.adjustments';
  const { presencePenalty, frequencyPenalty, biases, biasedTokens, endTokens, badWords } = wholes(
    name,
    adjustments,
    'minNewTokens',
  );
  number(`${name}.presencePenalty`, presencePenalty);
  number(`${name}.frequencyPenalty`, frequencyPenalty);
  for (const bias of list(`${name}.biases`, biases)) number(`${name}.biases`, bias);
  allWhole(`${name}.biasedTokens`, biasedTokens);
  allWhole(`${name}.endTokens`, endTokens);
  for (const word of list(`${name}.badWords`, badWords)) allWhole(`${name}.badWords`, word);
}

function checkSharing({ pages, copy, own }: Fields): void {
  allWhole('open.sharing.pages', pages);
  allWhole('open.sharing.own', own);
  if (copy !== undefined) wholes('open.sharing.copy', copy, 'page', 'position');
}

function object(name: string, value: unknown): Fields {
  if (!isObject(value)) throw wrong(name, value, 'an object');
  return value;
}

/** An object with whole numbers of these names. */
function wholes(name: string, value: unknown, ...keys: readonly string[]): Fields {
  const fields = object(name, value);
  for (const key of keys) whole(`${name}.${key}`, fields[key]);
  return fields;
}

function whole(name: string, value: unknown, least = 0): void {
  if (!Number.isSafeInteger(value) || (value as number) < least)
    throw wrong(name, value, `a whole number of at least ${least}`);
}

function allWhole(name: string, values: unknown): void {
  for (const value of list(name, values)) whole(name, value);
}

function truth(name: string, value: unknown): void {
  if (typeof value !== 'boolean') throw wrong(name, value, 'true or false');
}

/** NaN and infinities are numbers: a log-probability that nobody asked for is one. */
function number(name: string, value: unknown): void {
  if (typeof value !== 'number') throw wrong(name, value, 'a number');
}

function list(name: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong(name, value, 'a list');
  return value;
}

function entries(name: string, value: unknown): ReadonlyMap<unknown, unknown> {
  if (!types.isMap(value)) throw wrong(name, value, 'a Map');
  return value;
}

function wrong(name: string, value: unknown, expected: string): PeerError {
  return new PeerError(`${name}: found ${found(value)}, expected ${expected}`);
}
