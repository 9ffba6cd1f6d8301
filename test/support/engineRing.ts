import { activationLink, Engine, type ActivationLink, type EngineOptions, type Peers } from '../../src/index.js';

/** Engines that are connected in a ring: each one's source is the sink of the one before. */
export interface EngineRing extends AsyncDisposable {
  readonly engines: readonly Engine[];
  /** For one run, links of its own: each engine's source and sink. */
  connect(wrap?: (link: ActivationLink, from: number) => ActivationLink): Peers[];
}

/** What of the model an engine has. */
type Place = Pick<EngineOptions, 'layers' | 'tensorParallel'>;
type Options = EngineOptions | ((index: number) => EngineOptions);

/** Engines of so many layers each. */
export function engineRing(counts: readonly number[], options: Options): Promise<EngineRing> {
  const first = (index: number): number => counts.slice(0, index).reduce((sum, count) => sum + count, 0);
  return ringOf(
    counts.map((count, index) => ({ layers: { first: first(index), count } })),
    options,
  );
}

/** So many engines with a share of each layer. @param attention how it is divided. Default: by heads */
export function shareRing(of: number, options: Options, attention?: 'heads' | 'rows'): Promise<EngineRing> {
  return ringOf(
    Array.from({ length: of }, (_, index) => ({ tensorParallel: { index, of, ...(attention && { attention }) } })),
    options,
  );
}

/** Two engines of all layers: the first one generates, the other one computes prompts. */
export function promptsRing(options: Options): Promise<EngineRing> {
  return ringOf([{}, {}], options);
}

async function ringOf(places: readonly Place[], options: Options): Promise<EngineRing> {
  const engines: Engine[] = [];
  const close = async (): Promise<void> => {
    for (const engine of engines) await engine.close();
  };
  try {
    for (const [index, place] of places.entries())
      engines.push(await Engine.open({ ...(typeof options === 'function' ? options(index) : options), ...place }));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    engines,
    connect: (wrap = (link) => link) => {
      const links = engines.map((_, from) => wrap(activationLink(), from));
      return links.map(({ sink }, index) => {
        const source = links.at(index - 1)?.source;
        if (!source) throw new RangeError('a ring of no engines');
        return { sink, source };
      });
    },
    [Symbol.asyncDispose]: close,
  };
}

/** Has one engine of a ring die once it has sent so many messages. */
export function dyingAfter(messages: number, dying: number): NonNullable<Parameters<EngineRing['connect']>[0]> {
  let sent = 0;
  return ({ sink, source }, from) => ({
    source,
    sink: {
      send: (message) => {
        if (from === dying && sent++ === messages) sink.close(new Error('it died'));
        return from === dying && sent > messages ? Promise.reject(new Error('it died')) : sink.send(message);
      },
      close: (error) => {
        sink.close(error);
      },
    },
  });
}
