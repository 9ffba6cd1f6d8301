import { activationLink, Engine, type ActivationLink, type EngineOptions, type Peers } from '../../src/index.js';

/** Engines of so many layers each, connected in a ring: each one's source is the sink of the one before. */
export interface EngineRing extends AsyncDisposable {
  readonly engines: readonly Engine[];
  /** For one run, links of its own: each engine's source and sink. */
  connect(wrap?: (link: ActivationLink, from: number) => ActivationLink): Peers[];
}

export async function engineRing(
  counts: readonly number[],
  options: EngineOptions | ((index: number) => EngineOptions),
): Promise<EngineRing> {
  const engines: Engine[] = [];
  const close = async (): Promise<void> => {
    for (const engine of engines) await engine.close();
  };
  try {
    let first = 0;
    for (const [index, count] of counts.entries()) {
      engines.push(
        await Engine.open({ ...(typeof options === 'function' ? options(index) : options), layers: { first, count } }),
      );
      first += count;
    }
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
