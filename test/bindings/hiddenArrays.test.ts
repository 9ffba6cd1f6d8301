import { expect, test } from '@jest/globals';
import type { NativeCompletions } from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { makeTinyModel } from './support/tinyModel.js';

test('hidden states come in an array that was given back, if it is as long, and else in one of their own', async () => {
  const model = makeTinyModel();
  const { decoder, bindings } = model;
  const runtime = loadAddon().openRuntime(
    model.options({
      decoder: {
        ...decoder,
        layers: 1,
        layerSpecs: decoder.layerSpecs.slice(0, 1),
        part: { firstLayer: 0, modelLayers: decoder.layers },
      },
      bindings: bindings.filter(({ role, layer }) => layer === 0 || role === 'token_embedding'),
    }),
  );
  try {
    await runtime.load(() => undefined);
    const read = new Map<number, (hidden: Float32Array | undefined) => void>();
    runtime.onCompleted(({ hidden }: NativeCompletions) => {
      for (const each of hidden) read.get(each.event)?.(each.hidden);
    });
    const activations = runtime.createActivations(8);
    const written = (tokens: number): Float32Array =>
      Float32Array.from({ length: tokens * decoder.hiddenSize }, (_, at) => tokens + at / 64);
    const reads = async (tokens: number): Promise<Float32Array> => {
      runtime.writeHidden(activations, written(tokens));
      const event = runtime.submitReadHidden(activations, tokens, []);
      const hidden = await new Promise<Float32Array | undefined>((resolve) => read.set(event, resolve));
      expect(hidden).toEqual(written(tokens));
      if (!hidden) throw new Error('expected hidden states');
      return hidden;
    };
    const [two, three] = [await reads(2), await reads(3)];
    expect((await reads(2)).buffer).not.toBe(two.buffer);
    runtime.giveBackHidden(two);
    runtime.giveBackHidden(three);
    runtime.giveBackHidden(new Float32Array(0));
    expect((await reads(4)).buffer).not.toBe(three.buffer);
    expect(await reads(2)).toBe(two);
    expect(await reads(3)).toBe(three);
    // Each is given once for each time that it comes back; whose memory has been taken away is no array for anything.
    expect(await reads(3)).not.toBe(three);
    runtime.giveBackHidden(two);
    structuredClone(two, { transfer: [two.buffer as ArrayBuffer] });
    expect(await reads(2)).toHaveLength(2 * decoder.hiddenSize);
    expect(() => {
      runtime.giveBackHidden([1] as unknown as Float32Array);
    }).toThrow('hidden: found an array, expected a Float32Array');
  } finally {
    await runtime.close();
    model.remove();
  }
});
