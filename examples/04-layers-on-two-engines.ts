// One model, its layers divided over two engines: each has its own memory, weights and KV cache, and hidden states go
// from one to the other. Here both are in one process, with a queue in memory between them; `back.listen(address)` and
// `front.connect([address])` make them two machines. Usage: node scripts/run-example.mjs 04-layers-on-two-engines
// [MODEL]
import { activationLink, Engine, type RowResult, type RunStats } from 'spillway';
import { readModel, resolveModel } from 'spillway/models';

const PROMPTS = [
  'One, two, three,',
  'The capital of France is',
  'Water boils at',
  'A long time ago, in a village by the sea,',
  'Roses are red,',
  'Once',
];

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

export async function main(
  model: string,
): Promise<{ readonly alone: readonly RowResult[]; readonly together: readonly RowResult[] }> {
  const { layers } = (await readModel(await resolveModel(model))).decoder;
  const cut = Math.ceil(layers / 2);
  const rows = PROMPTS.map((prompt) => ({ prompt }));
  const shape = { batchSize: 2, batches: 2 };
  const onStats = (which: string) => ({
    onStats: ({ memory, bytes }: RunStats) => {
      console.log(`${which}: ${JSON.stringify({ memory: memory['cpu']?.peakBytes, activations: bytes.activations })}`);
    },
  });

  await using whole = await Engine.open({ model, ...shape });
  const alone = await collect(whole.generate(rows, { maxNewTokens: 16, logprobs: 0, ...onStats('one engine') }));

  await using front = await Engine.open({ model, ...shape, layers: { first: 0, count: cut } });
  await using back = await Engine.open({ model, ...shape, layers: { first: cut, count: layers - cut } });
  // Hidden states go forth, sampled tokens come back.
  const forth = activationLink();
  const backwards = activationLink();
  const following = back.follow(
    { source: forth.source, sink: backwards.sink },
    onStats(`layers ${cut} to ${layers - 1}`),
  );
  const generating = collect(
    front.generate(rows, {
      maxNewTokens: 16,
      logprobs: 0,
      peers: { source: backwards.source, sink: forth.sink },
      ...onStats(`layers 0 to ${cut - 1}`),
    }),
  );
  const [together] = await Promise.all([generating, following]);

  // Where a layer is computed never changes what comes out: ids and log-probabilities are the same to the last bit.
  console.log(
    JSON.stringify(together) === JSON.stringify(alone)
      ? 'two engines gave the same answers as one'
      : 'the answers differ',
  );
  return { alone, together };
}
