import { PeerError } from '../../errors/engineErrors.js';
import { least } from '../grid/pageCounts.js';
import type { BeginMessage } from './PeerMessage.js';
import type { DecoderSpec } from '../../model/DecoderSpec.js';
import type { LayerShare } from '../../model/dividedLayer.js';
import { fetches, mostElsewhere } from '../open/gpuMemory.js';
import type { Opened } from '../open/Opened.js';
import { layerBounds } from '../grid/Square.js';

/** The facts of an engine, what it is and has, as its peers have to know them. */
export interface PeerFacts extends Pick<
  BeginMessage,
  'model' | 'grid' | 'streams' | 'cache' | 'pages' | 'sharesPages'
> {
  readonly layers: { readonly first: number; readonly count: number };
  /** The engine's share of each layer, where it has one. */
  readonly share?: LayerShare;
}

function nextShare({ index, of, attention }: LayerShare): NonNullable<BeginMessage['share']> {
  return { next: index + 1, of, ...(attention === 'rows' && { attention }) };
}

/** Makes the message that the engine of the first layers sends round the ring. Pure. */
export function beginOf({ layers, share, ...facts }: PeerFacts): BeginMessage {
  return {
    kind: 'begin',
    ...facts,
    engines: 1,
    nextLayer: layers.first + layers.count,
    ...(share && { share: nextShare(share) }),
  };
}

/**
 * Makes the message that an engine of later layers sends on: with its own layers and its own memory put in. Pure.
 * @throws PeerError where the two do not fit together: it names what was found and what was expected
 */
export function acceptBegin(
  begin: BeginMessage,
  { model, layers, share, grid, streams, cache, pages, sharesPages }: PeerFacts,
): BeginMessage {
  const ours = share
    ? `share ${share.index} of ${share.of}`
    : `layers ${layers.first} to ${layers.first + layers.count - 1}`;
  const refuse = (what: string, found: unknown, expected: unknown): never => {
    throw new PeerError(
      `${what}: found ${JSON.stringify(found) ?? 'none'}, expected ${JSON.stringify(expected) ?? 'none'} as in the engine of ${ours}`,
    );
  };
  checkModel(begin, model, refuse);
  for (const key of ['pageTokens', 'diskShare', 'mostDiskPages'] as const)
    if (begin.cache[key] !== cache[key]) refuse(`cache ${key}`, begin.cache[key], cache[key]);
  // Each counts a row's pages on every tier: a row must take the same of them everywhere. What fits on one engine's GPU
  // need not fit on another's.
  const [gpuShare, ownShare] = [begin.cache.gpuShare ?? 0, cache.gpuShare ?? 0];
  if (gpuShare !== ownShare) refuse('cache share on the GPU (the option cache says it)', gpuShare, ownShare);
  if (begin.share?.of !== share?.of) refuse('tensorParallel.of', begin.share?.of, share?.of);
  if (begin.share?.next !== share?.index) refuse('next share', begin.share?.next, share?.index);
  const [by, ownBy] = [begin.share?.attention ?? 'heads', share?.attention ?? 'heads'];
  if (by !== ownBy) refuse('tensorParallel.attention', by, ownBy);
  const nextLayer = share ? model.layers : layers.first;
  if (begin.nextLayer !== nextLayer) refuse('next layer', begin.nextLayer, nextLayer);
  for (const key of ['rowsPerSlot', 'tokensPerSquare'] as const) {
    if (!(begin.grid[key] <= grid[key]))
      throw new PeerError(
        `${key}: found ${begin.grid[key]} in the engine of the first ${share ? 'share' : 'layers'}, expected at most the ${grid[key]} of ${ours}`,
      );
  }
  const fetched = Math.min(begin.cache.mostFetchedPages ?? Infinity, cache.mostFetchedPages ?? Infinity);
  return {
    ...begin,
    nextLayer: layers.first + layers.count,
    ...(share && { share: nextShare(share) }),
    cache: { ...begin.cache, ...(Number.isFinite(fetched) && { mostFetchedPages: fetched }) },
    grid: { ...begin.grid, slots: Math.min(begin.grid.slots, grid.slots) },
    engines: begin.engines + 1,
    streams: begin.streams || streams,
    pages: least(begin.pages, pages),
    sharesPages: begin.sharesPages && sharesPages,
  };
}

/**
 * The same of an engine of all layers that computes prompts for another one. Pure.
 * @throws PeerError
 */
export function acceptPrompts(begin: BeginMessage, { model, cache }: PeerFacts): BeginMessage {
  const refuse = (what: string, found: unknown, expected: unknown): never => {
    throw new PeerError(
      `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)} as in the engine that computes prompts`,
    );
  };
  checkModel(begin, model, refuse);
  if (begin.cache.pageTokens !== cache.pageTokens) refuse('cache pageTokens', begin.cache.pageTokens, cache.pageTokens);
  if (begin.nextLayer !== model.layers || begin.engines !== 1 || begin.share)
    throw new PeerError(
      `layers: found an engine of the first ${begin.nextLayer} of them, expected one of all ${model.layers}: this one computes prompts`,
    );
  return { ...begin, engines: 2 };
}

function checkModel(
  begin: BeginMessage,
  model: BeginMessage['model'],
  refuse: (what: string, found: unknown, expected: unknown) => never,
): void {
  for (const key of ['family', 'layers', 'hiddenSize', 'vocabularySize', 'contents'] as const)
    if (begin.model[key] !== model[key]) refuse(`model ${key}`, begin.model[key], model[key]);
}

/** Collects the facts of an engine that its peers have to know. @param contents `ResultIdentity.model` */
export function peerFacts(
  decoder: DecoderSpec,
  { grid, cache, gpu, weights }: Pick<Opened, 'grid' | 'cache' | 'gpu' | 'weights'>,
  contents: string,
): PeerFacts {
  const { layers, hiddenSize, vocabularySize, family } = decoder;
  const { share } = grid;
  return {
    model: { layers, hiddenSize, vocabularySize, family, contents },
    layers: { first: layerBounds(grid).first, count: grid.layers },
    ...(share && { share: { index: share.index, of: share.of, ...(share.attention && { attention: 'rows' }) } }),
    grid: { slots: grid.slots, rowsPerSlot: grid.rowsPerSlot, tokensPerSquare: grid.tokensPerSquare },
    streams: weights.streamedBytes.some((bytes) => bytes > 0),
    cache: {
      pageTokens: cache.pageTokens,
      diskShare: cache.disk.share,
      mostDiskPages: cache.disk.mostPerRow,
      ...(gpu && { gpuShare: gpu.cacheShare }),
      ...(gpu && fetches(gpu) && { mostFetchedPages: mostElsewhere(gpu, gpu.options.cacheBufferPages) }),
    },
    // On a GPU, with a cache on disk, and where engines keep some rows each, rows share nothing yet.
    sharesPages: !gpu && cache.disk.share === 0 && share?.attention === undefined,
    pages: { gpu: gpu?.options.pages ?? 0, memory: cache.pages, disk: cache.disk.pages },
  };
}
