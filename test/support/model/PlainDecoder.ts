import { readFileSync } from 'node:fs';
import type { DecoderSpec, RotaryTable } from '../../../src/model/DecoderSpec.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import { WEIGHT_TYPES } from '../../../src/model/weightTypes.js';
import { PAGE_TOKENS } from '../../../src/plan/reserves.js';
import { type TensorBinding } from '../../../src/model/TensorBinding.js';
import { dequantise } from './dequantise.js';
import { readPacked } from './readPacked.js';

type Vector = Float64Array;

/**
 * Runs a DecoderSpec in plain TypeScript and float64, one whole text at a time, straight from its definition: what a
 * spec and its bindings mean, without cache, batches or kernels. For tiny models.
 */
export class PlainDecoder {
  readonly #spec: DecoderSpec;
  readonly #weights = new Map<string, Vector>();

  constructor(source: ModelSource) {
    this.#spec = source.decoder;
    const files = source.files.map((file) => readFileSync(file));
    for (const binding of source.bindings)
      this.#weights.set(`${binding.layer} ${binding.role}`, readWeight(binding, files));
  }

  /** Logits after each of the tokens. */
  logits(tokens: readonly number[]): Vector[] {
    const spec = this.#spec;
    const h = tokens.map((token, position) => this.#embed(token, position));
    for (let layer = 0; layer < spec.layers; layer++) this.#layer(layer, h);
    return h.map((row) => {
      const normed = spec.finalNorm ? this.#norm(-1, 'final_norm', row) : row;
      const projected = this.#weights.has('-1 output_projection')
        ? this.#product(-1, 'output_projection', normed)
        : normed;
      const head = this.#weights.get('-1 head.weight') ?? this.#weight(-1, 'token_embedding');
      return product(head, projected, this.#weights.get('-1 head.bias')).map((x) =>
        softCapped(x * (spec.logitScale ?? 1), spec.logitSoftCap),
      );
    });
  }

  #embed(token: number, position: number): Vector {
    const { embedding, position: encoding, hiddenSize } = this.#spec;
    const row = this.#weight(-1, 'token_embedding')
      .slice(token * embedding.size, (token + 1) * embedding.size)
      .map((x) => x * embedding.scale);
    const hidden = this.#weights.has('-1 embedding_projection') ? this.#product(-1, 'embedding_projection', row) : row;
    if (encoding.kind !== 'learned') return hidden;
    const start = (position + encoding.offset) * hiddenSize;
    return sum(hidden, this.#weight(-1, 'position_embedding').subarray(start, start + hiddenSize));
  }

  #layer(layer: number, h: Vector[]): void {
    const { residual, residualScale = 1 } = this.#spec;
    const before = (name: 'norm1' | 'norm2', row: Vector): Vector =>
      residual === 'post' || residual === 'branch' ? row : this.#norm(layer, name, row);
    const after = (name: 'post_norm1' | 'post_norm2', row: Vector): Vector =>
      (residual === 'sandwich' || residual === 'branch' ? this.#norm(layer, name, row) : row).map(
        (x) => x * residualScale,
      );
    const { mixer = 'attention' } = this.#spec.layerSpecs[layer] ?? {};
    const mixed =
      mixer === 'delta-rule'
        ? this.#applyDeltaRule.bind(this)
        : mixer === 'short-convolution'
          ? this.#applyShortConvolution.bind(this)
          : mixer === 'state-space'
            ? this.#applyStateSpace.bind(this)
            : this.#attend.bind(this);
    const attended = mixed(
      layer,
      h.map((row) => before('norm1', row)),
    ).map((row) => after('post_norm1', row));
    for (const [t, row] of h.entries()) {
      const attention = attended[t] ?? row;
      if (residual === 'parallel') {
        const second = this.#weights.has(`${layer} norm2.weight`) ? 'norm2' : 'norm1';
        h[t] = sum(sum(row, attention), after('post_norm2', this.#feedForward(layer, this.#norm(layer, second, row))));
        continue;
      }
      const middle = residual === 'post' ? this.#norm(layer, 'norm1', sum(row, attention)) : sum(row, attention);
      const end = sum(middle, after('post_norm2', this.#feedForward(layer, before('norm2', middle))));
      h[t] = residual === 'post' ? this.#norm(layer, 'norm2', end) : end;
    }
  }

  #attend(layer: number, inputs: readonly Vector[]): Vector[] {
    const { heads, kvHeads, headDim, attention, position, layerSpecs } = this.#spec;
    const { window } = layerSpecs[layer] ?? { window: 0 };
    const headsOf = (role: 'q' | 'k' | 'v', count: number): Vector[][] =>
      inputs.map((input, t) => {
        const product = this.#product(layer, role, input);
        const row =
          role !== 'v' && attention.qkNorm === 'row'
            ? this.#normOf('rms', product, this.#headNorm(layer, role))
            : product;
        return Array.from({ length: count }, (_, head) => {
          const one = row.slice(head * headDim, (head + 1) * headDim);
          return role === 'v' ? one : this.#prepareHead(layer, role, head, one, t);
        });
      });
    const [q, k, v] = [headsOf('q', heads), headsOf('k', kvHeads), headsOf('v', kvHeads)];
    return inputs.map((_, t) => {
      const output = new Float64Array(heads * headDim);
      for (let head = 0; head < heads; head++) {
        const group = Math.floor(head / (heads / kvHeads));
        const first = window === 0 ? 0 : Math.max(0, t - window + 1);
        const scores = k.slice(first, t + 1).map((keys, i) => {
          if (window === 0 && isLetGo(attention.eviction, first + i, t)) return -Infinity;
          const score = dot(q[t]?.[head], keys[group]) + alibiBias(position, head, first + i);
          return softCapped(score * attention.scale, attention.softCap);
        });
        const sink = attention.sinks === true ? [this.#weight(layer, 'sinks')[head] ?? NaN] : [];
        const shares = softmax([...scores, ...sink]).slice(0, scores.length);
        shares.forEach((share, i) =>
          v[first + i]?.[group]?.forEach(
            (x, d) => (output[head * headDim + d] = (output[head * headDim + d] ?? 0) + share * x),
          ),
        );
      }
      const gate = attention.gate === true ? this.#product(layer, 'q_gate', inputs[t] ?? output) : undefined;
      return this.#product(
        layer,
        'o',
        output.map((x, i) => (gate ? x * logistic(gate[i] ?? NaN) : x)),
      );
    });
  }

  /** Of each element the sum over its channel's last ones. */
  #convolve(layer: number, role: 'conv' | 'delta_conv' | 'state_conv', rows: readonly Vector[]): Vector[] {
    const taps = this.#spec.recurrent?.taps ?? 0;
    const weight = this.#weight(layer, `${role}.weight`);
    return rows.map((row, t) =>
      row.map((_, channel) =>
        Array.from({ length: taps }, (__, k) => k).reduce(
          (all, k) => all + (rows[t - taps + 1 + k]?.[channel] ?? 0) * (weight[channel * taps + k] ?? NaN),
          0,
        ),
      ),
    );
  }

  #applyShortConvolution(layer: number, inputs: readonly Vector[]): Vector[] {
    const { hiddenSize } = this.#spec;
    const rows = inputs.map((input) => this.#product(layer, 'conv_in', input));
    const part = (row: Vector, index: number): Vector => row.slice(index * hiddenSize, (index + 1) * hiddenSize);
    const gated = rows.map((row) => part(row, 0).map((b, i) => b * (part(row, 2)[i] ?? NaN)));
    return this.#convolve(layer, 'conv', gated).map((row, t) => {
      const c = part(rows[t] ?? row, 1);
      return this.#product(
        layer,
        'conv_out',
        row.map((x, i) => x * (c[i] ?? NaN)),
      );
    });
  }

  #applyDeltaRule(layer: number, inputs: readonly Vector[]): Vector[] {
    const sizes = this.#spec.recurrent?.delta;
    if (!sizes) throw new Error('no sizes of the delta rule');
    const { keyHeads, valueHeads, keyDim, valueDim, tiled } = sizes;
    const rows = this.#convolve(
      layer,
      'delta_conv',
      inputs.map((input) => this.#product(layer, 'delta_in', input)),
    ).map((row) => row.map(ACTIVATIONS.silu));
    const states = Array.from({ length: valueHeads }, () =>
      Array.from({ length: keyDim }, () => new Float64Array(valueDim)),
    );
    return inputs.map((input, t) => {
      const row = rows[t] ?? input;
      const [beta, decay] = [this.#product(layer, 'delta_beta', input), this.#product(layer, 'delta_decay', input)];
      const gate = this.#product(layer, 'delta_gate', input);
      const output = new Float64Array(valueHeads * valueDim);
      states.forEach((state, head) => {
        const at = (first: number, count: number): Vector => row.slice(first, first + count);
        const keyHead = (tiled === true ? head % keyHeads : Math.floor(head / (valueHeads / keyHeads))) * keyDim;
        const query = unit(at(keyHead, keyDim)).map((x) => x / Math.sqrt(keyDim));
        const key = unit(at(keyHeads * keyDim + keyHead, keyDim));
        const value = at(2 * keyHeads * keyDim + head * valueDim, valueDim);
        const step = (decay[head] ?? NaN) + (this.#weight(layer, 'decay.bias')[head] ?? NaN);
        const kept = Math.exp(-this.#rate(layer, head) * Math.log1p(Math.exp(step)));
        for (const each of state) for (let v = 0; v < valueDim; v++) each[v] = (each[v] ?? NaN) * kept;
        const seen = (by: Vector, v: number): number =>
          state.reduce((all, each, k) => all + (each[v] ?? NaN) * (by[k] ?? NaN), 0);
        const change = value.map((x, v) => (x - seen(key, v)) * logistic(beta[head] ?? NaN));
        state.forEach((each, k) => {
          for (let v = 0; v < valueDim; v++) each[v] = (each[v] ?? NaN) + (key[k] ?? NaN) * (change[v] ?? NaN);
        });
        const normed = this.#norm(
          layer,
          'delta_norm',
          value.map((_, v) => seen(query, v)),
        );
        normed.forEach((x, v) => {
          const place = head * valueDim + v;
          output[place] = x * ACTIVATIONS.silu(gate[place] ?? NaN);
        });
      });
      return this.#product(layer, 'delta_out', output);
    });
  }

  /** How fast a head forgets. */
  #rate(layer: number, head: number): number {
    return this.#spec.recurrent?.decay === 'negated'
      ? -(this.#weight(layer, 'decay.negated')[head] ?? NaN)
      : Math.exp(this.#weight(layer, 'decay.log')[head] ?? NaN);
  }

  #applyStateSpace(layer: number, inputs: readonly Vector[]): Vector[] {
    const sizes = this.#spec.recurrent?.stateSpace;
    if (!sizes) throw new Error('no sizes of a state space');
    const { heads, headDim, stateDim, groups, leastTimeStep = 0, mostTimeStep = Infinity } = sizes;
    const values = heads * headDim;
    const convolved = values + 2 * groups * stateDim;
    const projected = inputs.map((input) => this.#product(layer, 'state_in', input));
    const bias = this.#weights.get(`${layer} state_conv.bias`);
    const rows = this.#convolve(
      layer,
      'state_conv',
      projected.map((row) => row.slice(0, convolved)),
    ).map((row) => row.map((x, channel) => ACTIVATIONS.silu(x + (bias?.[channel] ?? 0))));
    const states = Array.from({ length: values }, () => new Float64Array(stateDim));
    return projected.map((whole, t) => {
      const row = rows[t] ?? whole;
      const output = new Float64Array(values);
      states.forEach((state, element) => {
        const head = Math.floor(element / headDim);
        const group = Math.floor(head / (heads / groups));
        const raw = (whole[convolved + values + head] ?? NaN) + (this.#weight(layer, 'decay.bias')[head] ?? NaN);
        const step = Math.min(Math.max(Math.log1p(Math.exp(raw)), leastTimeStep), mostTimeStep);
        const kept = Math.exp(-this.#rate(layer, head) * step);
        const [written, read] = [values + group * stateDim, values + (groups + group) * stateDim];
        const input = row[element] ?? NaN;
        let seen = input * (this.#weight(layer, 'state_skip')[head] ?? NaN);
        for (let n = 0; n < stateDim; n++) {
          state[n] = (state[n] ?? NaN) * kept + step * input * (row[written + n] ?? NaN);
          seen += (state[n] ?? NaN) * (row[read + n] ?? NaN);
        }
        output[element] = seen * ACTIVATIONS.silu(whole[convolved + element] ?? NaN);
      });
      const size = values / groups;
      const normed = Array.from({ length: groups }, (_, group) => {
        const [first, end] = [group * size, (group + 1) * size];
        const weight = this.#weight(layer, 'state_norm.weight').slice(first, end);
        return [...this.#normOf('rms', output.slice(first, end), weight)];
      }).flat();
      return this.#product(layer, 'state_out', Float64Array.from(normed));
    });
  }

  #headNorm(layer: number, role: 'q' | 'k'): Vector {
    return this.#weight(layer, `${role}_norm.weight`);
  }

  /** Norm and rotation of a head of queries or keys. */
  #prepareHead(layer: number, role: 'q' | 'k', head: number, row: Vector, at: number): Vector {
    const { headDim, attention, position, layerSpecs } = this.#spec;
    const { rotaryTable } = layerSpecs[layer] ?? { rotaryTable: 0 };
    const table = position.kind === 'rotary' && rotaryTable !== 'none' ? position.tables[rotaryTable] : undefined;
    const turn = (x: Vector): Vector =>
      table === undefined || position.kind !== 'rotary' ? x : rotate(x, at, table, position);
    switch (attention.qkNorm) {
      case 'head':
        return turn(this.#normOf('rms', row, this.#headNorm(layer, role)));
      case 'rotated':
        return this.#normOf('rms', turn(row), this.#headNorm(layer, role));
      case 'layer': {
        const own = this.#headNorm(layer, role).slice(head * headDim, (head + 1) * headDim);
        return turn(this.#normOf('layer', row, own));
      }
      default:
        return turn(row);
    }
  }

  #feedForward(layer: number, input: Vector): Vector {
    const { feedForward } = this.#spec;
    const activate = ACTIVATIONS[feedForward.activation];
    const factor = (x: number): number =>
      feedForward.activation === 'clamped-swiglu' ? Math.min(Math.max(x, -7), 7) + 1 : x;
    const gated = (prefix: string): Vector => {
      const up = this.#product(layer, `${prefix}up`, input);
      return this.#product(
        layer,
        `${prefix}down`,
        this.#product(layer, `${prefix}gate`, input).map((x, i) => activate(x) * factor(up[i] ?? NaN)),
      );
    };
    if (feedForward.kind === 'gated') return gated('');
    if (feedForward.kind === 'plain')
      return this.#product(layer, 'down', this.#product(layer, 'up', input).map(activate));
    if (this.#spec.layerSpecs[layer]?.dense === true) return gated('');
    const routed = this.#chosen(layer, input)
      .map(({ share, expert }) => gated(`expert.${expert}.`).map((x) => x * share))
      .reduce<Vector>(sum, new Float64Array(input.length));
    const { shared } = feedForward.experts ?? {};
    if (shared === undefined) return routed;
    const share = shared.gate ? logistic(this.#product(layer, 'shared_gate', input)[0] ?? NaN) : 1;
    return sum(
      routed,
      gated('').map((x) => x * share),
    );
  }

  /** The experts of a token, and what they weigh. */
  #chosen(layer: number, input: Vector): { readonly share: number; readonly expert: number }[] {
    const { perToken = 0, router } = this.#spec.feedForward.experts ?? {};
    const logits = [...this.#product(layer, 'router', input)];
    const scores = router?.score === 'sigmoid' ? logits.map(logistic) : softmax(logits);
    const bias = this.#weights.get(`${layer} router.choice_bias`);
    const wanted = scores.map((score, expert) => score + (bias?.[expert] ?? 0));
    const { count: groups, perToken: kept, score: groupScore } = router?.groups ?? { count: 1, perToken: 1 };
    const size = scores.length / groups;
    const best = Array.from({ length: groups }, (_, group) => {
      const [first = NaN, second = 0] = wanted.slice(group * size, (group + 1) * size).sort((a, b) => b - a);
      return { group, score: groupScore === 'best-two' ? first + second : first };
    })
      .sort((a, b) => b.score - a.score)
      .slice(0, kept)
      .map(({ group }) => group);
    const chosen = scores
      .map((share, expert) => ({ share, expert }))
      .filter(({ expert }) => best.includes(Math.floor(expert / size)))
      .sort((a, b) => (wanted[b.expert] ?? NaN) - (wanted[a.expert] ?? NaN))
      .slice(0, perToken);
    const total =
      router?.normalised === false ? 1 : chosen.reduce((all, { share }) => all + share, router?.epsilon ?? 0);
    return chosen.map(({ share, expert }) => ({ expert, share: (share * (router?.scale ?? 1)) / total }));
  }

  #norm(layer: number, name: string, row: Vector): Vector {
    const weight = this.#weight(layer, `${name}.weight`);
    return this.#normOf(this.#spec.norm.kind, row, weight, this.#weights.get(`${layer} ${name}.bias`));
  }

  #normOf(kind: 'rms' | 'layer', row: Vector, weight: Vector, bias?: Vector): Vector {
    const { epsilon } = this.#spec.norm;
    const mean = kind === 'layer' ? row.reduce((all, x) => all + x, 0) / row.length : 0;
    const variance = row.reduce((all, x) => all + (x - mean) ** 2, 0) / row.length;
    return row.map((x, i) => ((x - mean) / Math.sqrt(variance + epsilon)) * (weight[i] ?? NaN) + (bias?.[i] ?? 0));
  }

  #product(layer: number, role: string, input: Vector): Vector {
    const weight = this.#weights.get(`${layer} ${role}`) ?? this.#weight(layer, `${role}.weight`);
    return product(weight, input, this.#weights.get(`${layer} ${role}.bias`));
  }

  #weight(layer: number, role: string): Vector {
    const weight = this.#weights.get(`${layer} ${role}`);
    if (weight === undefined) throw new Error(`no ${role} in layer ${layer}`);
    return weight;
  }
}

/** Whether a key's page is neither one of the first nor of the last ones that a token sees. */
function isLetGo(eviction: DecoderSpec['attention']['eviction'], key: number, at: number): boolean {
  if (eviction === undefined) return false;
  const page = (position: number): number => Math.floor(position / PAGE_TOKENS);
  const sinks = Math.ceil(eviction.sinks / PAGE_TOKENS);
  return page(key) >= sinks && page(key) < page(Math.max(0, at - eviction.window + 1));
}

/** Of length 1. */
function unit(x: Vector): Vector {
  const length = Math.sqrt(x.reduce((all, each) => all + each * each, 0) + 1e-6);
  return x.map((each) => each / length);
}

/** Element by element, rounded as the engine does it. */
function readFloat8(
  { columns, segments }: TensorBinding,
  { file, offset, type, blockRows, blockColumns, tensorOffset }: NonNullable<TensorBinding['float8']>,
  files: readonly Buffer[],
): Vector {
  const across = Math.ceil(columns / blockColumns);
  const { bytes } = WEIGHT_TYPES[type];
  const values: number[] = [];
  for (const { file: of, offset: start, rows } of segments) {
    for (let at = start; at < start + rows * columns; at++) {
      const [row, column] = [Math.floor((at - tensorOffset) / columns), (at - tensorOffset) % columns];
      const block = Math.floor(row / blockRows) * across + Math.floor(column / blockColumns);
      const from = offset + block * bytes;
      const scale = dequantise(type, files[file]?.subarray(from, from + bytes) ?? Buffer.alloc(0))[0];
      values.push(toHalf(Math.fround(float8(files[of]?.[at] ?? NaN) * (scale ?? NaN))));
    }
  }
  return Float64Array.from(values);
}

/** E4M3 without infinities. */
function float8(byte: number): number {
  const [sign, exponent, mantissa] = [byte >> 7 ? -1 : 1, (byte >> 3) & 15, byte & 7];
  if ((byte & 127) === 127) return NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7));
}

/** The nearest half, of two the even one, of what is no greater than halves can be. */
function toHalf(value: number): number {
  const exponent = Math.max(-14, Math.floor(Math.log2(Math.abs(value))));
  const step = 2 ** (exponent - 10);
  const [below, rest] = [Math.floor(value / step), (value / step) % 1];
  const up = Math.abs(rest) === 0.5 ? below % 2 !== 0 : value / step - below > 0.5;
  return (below + (up ? 1 : 0)) * step;
}

function readWeight(binding: TensorBinding, files: readonly Buffer[]): Vector {
  if (binding.packed) return readPacked(binding, binding.packed, files);
  if (binding.float8) return readFloat8(binding, binding.float8, files);
  const parts = binding.segments.flatMap(({ rows, step = 1, ...segment }) =>
    Array.from({ length: rows }, (_, row) => readRow(binding, segment, row * step, files)),
  );
  return dequantise(binding.type, Buffer.concat(parts)).map((x) => x + (binding.add ?? 0));
}

/** The bytes of one of a segment's rows, as their type has them. */
function readRow(
  { type, columns, blockScales, inputRow }: TensorBinding,
  { file, offset }: { readonly file: number; readonly offset: number },
  row: number,
  files: readonly Buffer[],
): Buffer {
  const slice = (of: number, from: number, bytes: number): Buffer =>
    files[of]?.subarray(from, from + bytes) ?? Buffer.alloc(0);
  const block = WEIGHT_TYPES[type];
  if (inputRow !== undefined)
    return Buffer.concat(
      Array.from({ length: columns }, (_, input) =>
        slice(file, offset + (input * inputRow + row) * block.bytes, block.bytes),
      ),
    );
  if (blockScales === undefined) {
    const rowBytes = (columns / block.elements) * block.bytes;
    return slice(file, offset + row * rowBytes, rowBytes);
  }
  return Buffer.concat(
    Array.from({ length: columns / 32 }, (_, i) => {
      const from = offset + (row * columns) / 2 + i * 16;
      const nibbles = [...slice(file, from, 16)].flatMap((byte) => [byte & 15, byte >> 4]);
      const halves = Array.from({ length: 16 }, (__, j) => (nibbles[j] ?? 0) | ((nibbles[j + 16] ?? 0) << 4));
      const scale = slice(blockScales.file, blockScales.offset + (from - blockScales.tensorOffset) / 16, 1);
      return Buffer.concat([scale, Buffer.from(halves)]);
    }),
  );
}

const ACTIVATIONS: Readonly<Record<DecoderSpec['feedForward']['activation'], (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  'relu-squared': (x) => Math.max(x, 0) ** 2,
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  'gelu-tanh': (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
  'clamped-swiglu': (x) => Math.min(x, 7) / (1 + Math.exp(-1.702 * Math.min(x, 7))),
};

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

/** Its Maclaurin series, and 1 beyond where that cancels. */
function erf(x: number): number {
  if (Math.abs(x) > 5) return Math.sign(x);
  let [term, total] = [x, x];
  for (let n = 1; n < 120; n++) {
    term *= (-x * x) / n;
    total += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
}

function rotate(
  head: Vector,
  position: number,
  table: RotaryTable,
  { style, dims }: { style: 'pairs' | 'halves'; dims: number },
): Vector {
  const rotated = head.slice();
  table.frequencies.forEach((frequency, i) => {
    const angle = Math.fround(position * frequency);
    const [a, b] = style === 'pairs' ? [2 * i, 2 * i + 1] : [i, i + dims / 2];
    const [x, y] = [head[a] ?? NaN, head[b] ?? NaN];
    rotated[a] = (x * Math.cos(angle) - y * Math.sin(angle)) * table.scale;
    rotated[b] = (y * Math.cos(angle) + x * Math.sin(angle)) * table.scale;
  });
  return rotated;
}

function alibiBias(encoding: DecoderSpec['position'], head: number, keyPosition: number): number {
  if (encoding.kind !== 'alibi') return 0;
  const round = encoding.roundToBfloat16 ? bfloat16 : Math.fround;
  return round(round(encoding.slopes[head] ?? NaN) * keyPosition);
}

function bfloat16(x: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, x);
  const bits = view.getUint32(0);
  view.setUint32(0, ((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000) >>> 0);
  return view.getFloat32(0);
}

function softCapped(x: number, cap: number | undefined): number {
  return cap === undefined ? x : cap * Math.tanh(x / cap);
}

function product(weight: Vector, input: Vector, bias?: Vector): Vector {
  const columns = input.length;
  return Float64Array.from(
    { length: weight.length / columns },
    (_, row) => dot(weight.subarray(row * columns, (row + 1) * columns), input) + (bias?.[row] ?? 0),
  );
}

function dot(a: Vector | undefined, b: Vector | undefined): number {
  let total = 0;
  for (let i = 0; i < (a?.length ?? 0); i++) total += (a?.[i] ?? NaN) * (b?.[i] ?? NaN);
  return total;
}

function sum(a: Vector, b: Vector): Vector {
  return a.map((x, i) => x + (b[i] ?? NaN));
}

export function softmax(scores: readonly number[]): number[] {
  const most = Math.max(...scores);
  const shares = scores.map((score) => Math.exp(score - most));
  const total = shares.reduce((all, share) => all + share, 0);
  return shares.map((share) => share / total);
}
