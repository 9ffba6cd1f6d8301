import type { TinyModel } from './tinyModel.js';

/** The tiny model in plain double arithmetic: logits after every token of a text. */
export function referenceLogits(model: TinyModel, tokens: readonly number[]): Float64Array[] {
  const { decoder } = model;
  const { headDim, heads, kvHeads } = decoder;
  const keys: Float64Array[][] = Array.from({ length: decoder.layers }, () => []);
  const values: Float64Array[][] = Array.from({ length: decoder.layers }, () => []);
  const tensor = (layer: number, role: string): { rows: number; columns: number; values: Float32Array } => {
    const found = model.weights.get(`${layer} ${role}`);
    if (!found) throw new Error(`no ${layer} ${role}`);
    return found;
  };
  const product = (layer: number, role: string, x: Float64Array): Float64Array => {
    const { rows, columns, values: w } = tensor(layer, role);
    return Float64Array.from({ length: rows }, (_, r) =>
      dot(x, Float64Array.from(w.subarray(r * columns, (r + 1) * columns))),
    );
  };
  const norm = (layer: number, role: string, x: Float64Array): Float64Array => {
    const { values: w } = tensor(layer, role);
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + decoder.norm.epsilon);
    return x.map((v, i) => v * scale * at(w, i));
  };
  const rotate = (x: Float64Array, position: number): Float64Array => {
    if (decoder.position.kind !== 'rotary') throw new Error('the tiny model rotates');
    const frequencies = decoder.position.tables[0]?.frequencies ?? new Float32Array();
    const half = frequencies.length;
    return x.map((v, i) => {
      const pair = (i % headDim) % half;
      const angle = Math.fround(position * at(frequencies, pair));
      const other = at(x, i % headDim < half ? i + half : i - half);
      return v * Math.cos(angle) + (i % headDim < half ? -other : other) * Math.sin(angle);
    });
  };
  const attend = (layer: number, x: Float64Array, position: number): Float64Array => {
    const q = rotate(product(layer, 'q.weight', x), position);
    keys[layer]?.push(rotate(product(layer, 'k.weight', x), position));
    values[layer]?.push(product(layer, 'v.weight', x));
    const out = new Float64Array(heads * headDim);
    for (let h = 0; h < heads; h++) {
      const kv = Math.floor(h / (heads / kvHeads)) * headDim;
      const scores = (keys[layer] ?? []).map(
        (k) => dot(q.subarray(h * headDim, (h + 1) * headDim), k.subarray(kv, kv + headDim)) * decoder.attention.scale,
      );
      const chances = softmax(Float64Array.from(scores));
      (values[layer] ?? []).forEach((v, p) => {
        for (let i = 0; i < headDim; i++)
          out[h * headDim + i] = at(out, h * headDim + i) + at(chances, p) * at(v, kv + i);
      });
    }
    return product(layer, 'o.weight', out);
  };
  const feedForward = (layer: number, x: Float64Array): Float64Array => {
    const up = product(layer, 'up.weight', x);
    return product(
      layer,
      'down.weight',
      product(layer, 'gate.weight', x).map((g, i) => (g / (1 + Math.exp(-g))) * at(up, i)),
    );
  };
  return tokens.map((token, position) => {
    const embedding = tensor(-1, 'token_embedding');
    let h = Float64Array.from(embedding.values.subarray(token * embedding.columns, (token + 1) * embedding.columns));
    for (let layer = 0; layer < decoder.layers; layer++) {
      h = plus(h, attend(layer, norm(layer, 'norm1.weight', h), position));
      h = plus(h, feedForward(layer, norm(layer, 'norm2.weight', h)));
    }
    return product(-1, 'head.weight', norm(-1, 'final_norm.weight', h));
  });
}

export function softmax(x: Float64Array): Float64Array {
  const maximum = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = x.map((v) => Math.exp(v - maximum));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((v) => v / sum);
}

function at(x: ArrayLike<number>, index: number): number {
  const value = x[index];
  if (value === undefined) throw new RangeError(`index ${index} of ${x.length}`);
  return value;
}

function dot(a: Float64Array, b: Float64Array): number {
  return a.reduce((sum, v, i) => sum + v * at(b, i), 0);
}

function plus(a: Float64Array, b: Float64Array): Float64Array<ArrayBuffer> {
  return Float64Array.from(a, (v, i) => v + at(b, i));
}
