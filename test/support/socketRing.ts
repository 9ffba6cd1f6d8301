import { Engine, type EngineOptions, type ListenOptions, type PeerListener } from '../../src/index.js';

/** Engines of so many layers each; all but the first listen. */
export interface SocketRing extends AsyncDisposable {
  readonly first: Engine;
  readonly followers: readonly Engine[];
  readonly listeners: readonly PeerListener[];
  readonly addresses: readonly string[];
}

/** @param addressOf where the engines of later layers listen */
export function socketRing(
  counts: readonly number[],
  options: EngineOptions,
  addressOf: (index: number) => string,
  listening: ListenOptions = {},
): Promise<SocketRing> {
  const first = (index: number): number => counts.slice(0, index).reduce((sum, each) => sum + each, 0);
  const places = counts.map((count, index) => ({ layers: { first: first(index), count } }));
  return ringOf(places, options, addressOf, listening);
}

/** Engines with a share of each layer. */
export function shareSockets(
  of: number,
  options: EngineOptions,
  addressOf: (index: number) => string,
  listening: ListenOptions = {},
  attention: 'heads' | 'rows' = 'heads',
): Promise<SocketRing> {
  const places = Array.from({ length: of }, (_, index) => ({ tensorParallel: { index, of, attention } }));
  return ringOf(places, options, addressOf, listening);
}

/** Two engines of all layers: the first one generates, the other one computes prompts. */
export function promptsSockets(options: EngineOptions, addressOf: (index: number) => string): Promise<SocketRing> {
  return ringOf([{}, {}], options, addressOf, {});
}

async function ringOf(
  places: readonly Pick<EngineOptions, 'layers' | 'tensorParallel'>[],
  options: EngineOptions,
  addressOf: (index: number) => string,
  listening: ListenOptions,
): Promise<SocketRing> {
  const engines: Engine[] = [];
  const listeners: PeerListener[] = [];
  const close = async (): Promise<void> => {
    for (const engine of engines) await engine.close();
  };
  try {
    for (const [index, place] of places.entries()) {
      const engine = await Engine.open({ ...options, ...place });
      engines.push(engine);
      if (index > 0) listeners.push(await engine.listen(addressOf(index), listening));
    }
    const [first, ...followers] = engines;
    if (!first) throw new RangeError('a ring of no engines');
    return {
      first,
      followers,
      listeners,
      addresses: listeners.map(({ address }) => address),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
