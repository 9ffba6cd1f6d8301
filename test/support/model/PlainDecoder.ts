import { readFileSync } from 'node:fs';
import type { BranchSum, DecoderSpec, LatentSpec, RotaryTable } from '../../../src/model/DecoderSpec.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import { PAGE_TOKENS } from '../../../src/plan/reserves.js';
import { readWeight } from './readWeight.js';

type Vector = Float64Array;
/** Of each token, its heads. */
type Heads = Vector[][];

/**
 * Runs a DecoderSpec in plain TypeScript and float64, one whole text at a time, straight from its definition: what a
 * spec and its bindings mean, without cache, batches or kernels. For tiny models.
 */
export class PlainDecoder {
  readonly #spec: DecoderSpec;
  readonly #weights = new Map<string, Vector>();
  /** Of each layer of the text at hand, for layers that read another's. */
  readonly #keysAndValues = new Map<number, readonly [Heads, Heads]>();
  /** Of each token, what experts gave that the next layer adds. */
  readonly #aside: Vector[] = [];

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
    const streams = this.#begun(h);
    for (let layer = 0; layer < spec.layers; layer++)
      if (spec.streams) this.#streamLayer(layer, streams, tokens);
      else this.#layer(layer, h, tokens);
    return this.#joined(streams).map((row) => {
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
    if (encoding.kind !== 'learned') return embedding.norm === true ? this.#norm(-1, 'embedding_norm', hidden) : hidden;
    const start = (position + encoding.offset) * hiddenSize;
    return sum(hidden, this.#weight(-1, 'position_embedding').subarray(start, start + hiddenSize));
  }

  #layer(layer: number, h: Vector[], tokens: readonly number[]): void {
    const { residualScale = 1 } = this.#spec;
    const residual = this.#spec.layerSpecs[layer]?.branched === true ? 'branch' : this.#spec.residual;
    const before = (name: 'norm1' | 'norm2', row: Vector): Vector =>
      residual === 'post' || residual === 'branch' ? row : this.#norm(layer, name, row);
    const after = (name: 'post_norm1' | 'post_norm2', row: Vector): Vector =>
      (this.#weights.has(`${layer} ${name}.weight`) ? this.#norm(layer, name, row) : row).map((x) => x * residualScale);
    const attended = this.#mixed(
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
      const both = weighed(this.#spec.layerSpecs[layer]?.sums?.mixer, row, attention);
      const middle = residual === 'post' ? this.#norm(layer, 'norm1', both) : both;
      const end =
        this.#spec.layerSpecs[layer]?.mixerOnly === true
          ? middle
          : weighed(
              this.#spec.layerSpecs[layer]?.sums?.block,
              middle,
              after('post_norm2', this.#feedForward(layer, before('norm2', middle), middle, t)),
            );
      const added = this.#spec.layerSpecs[layer]?.dense === true ? this.#aside[t] : undefined;
      const whole = sum(added ? sum(end, added) : end, this.#layerInput(layer, end, tokens[t] ?? 0));
      const scale = this.#weights.get(`${layer} layer_scale`)?.[0] ?? 1;
      h[t] = (residual === 'post' ? this.#norm(layer, 'norm2', whole) : whole).map((x) => x * scale);
    }
  }

  #mixed(layer: number, inputs: readonly Vector[]): Vector[] {
    const { mixer = 'attention', stateBeside = false } = this.#spec.layerSpecs[layer] ?? {};
    switch (mixer) {
      case 'delta-rule':
        return this.#applyDeltaRule(layer, inputs);
      case 'short-convolution':
        return this.#applyShortConvolution(layer, inputs);
      case 'state-space':
        return this.#applyStateSpace(layer, inputs);
      case 'selective-scan':
        return this.#applyScan(layer, inputs);
      case 'lightning-attention':
        return this.#applyLightning(layer, inputs);
      case 'rg-lru':
        return this.#applyRgLru(layer, inputs);
      case 'attention': {
        const attended = this.#attend(layer, inputs);
        if (!stateBeside) return attended;
        const beside = this.#applyStateSpace(layer, inputs, 'beside_out');
        return attended.map((row, t) => sum(row, beside[t] ?? row));
      }
    }
  }

  /** The streams of hidden states, all of as large squares as the first. */
  #begun(h: Vector[]): Vector[][] {
    const { count } = this.#spec.streams ?? { count: 1 };
    return Array.from({ length: count }, (_, s) =>
      s === 0 ? h : h.map((row) => asLarge(row, this.#product(-1, `stream_in.${s}`, row))),
    );
  }

  #joined([first = [], ...others]: Vector[][]): Vector[] {
    return first.map((row, t) =>
      others
        .reduce<Vector>((all, stream, s) => {
          const made = this.#product(-1, `stream_out.${s + 1}`, stream[t] ?? row);
          return sum(all, asLarge(row, made));
        }, row)
        .map((x) => x / (others.length + 1)),
    );
  }

  #streamLayer(layer: number, streams: Vector[][], tokens: readonly number[]): void {
    const { hiddenSize } = this.#spec;
    const routed = (row: Vector): Vector =>
      product(
        this.#weight(layer, 'stream_router'),
        this.#norm(layer, 'stream_norm', row).map((x) => x / hiddenSize),
      ).map(Math.tanh);
    const before = streams.map((stream) => stream.slice());
    streams.forEach((stream, s) =>
      stream.forEach((_, t) => {
        const factors = product(this.#weight(layer, 'stream_predict'), routed(before[0]?.[t] ?? new Float64Array(0)));
        const own = before[s]?.[t] ?? new Float64Array(0);
        stream[t] = before.reduce<Vector>(
          (all, from, f) =>
            sum(
              all,
              (from[t] ?? own).map((x) => x * (factors[s * streams.length + f] ?? NaN)),
            ),
          own,
        );
      }),
    );
    const [first = []] = streams;
    const normed = first.map((row) => this.#norm(layer, 'norm1', row));
    const attended = this.#attend(layer, normed);
    first.forEach((predicted, t) => {
      const read = normed[t] ?? predicted;
      const bypass = this.#norm(
        layer,
        'bypass_norm',
        this.#product(layer, 'bypass_out', this.#product(layer, 'bypass_in', read)),
      );
      const gated = sum(predicted, this.#norm(layer, 'post_norm1', attended[t] ?? read));
      const middle = sum(gated, sum(read, bypass)).map((x) => x * Math.SQRT1_2);
      const block = this.#feedForward(layer, this.#norm(layer, 'norm2', middle));
      const end = sum(middle, this.#norm(layer, 'post_norm2', block));
      const coefficients = product(this.#weight(layer, 'stream_correct'), routed(end));
      for (const [s, stream] of streams.entries())
        stream[t] = (stream[t] ?? end).map(
          (x, i) => x + ((end[i] ?? NaN) - (predicted[i] ?? NaN)) * ((coefficients[s] ?? NaN) + 1),
        );
      const scale = this.#weights.get(`${layer} stream_scale`);
      const corrected = (first[t] ?? end).map((x, i) => x * (scale?.[i] ?? 1));
      const input = this.#layerInput(layer, corrected, tokens[t] ?? 0);
      for (const stream of streams.slice(1)) stream[t] = sum(stream[t] ?? end, input);
    });
  }

  /** What a layer adds of its token's embeddings. */
  #layerInput(layer: number, row: Vector, token: number): Vector {
    const { layerInputs: size = 0, embedding, hiddenSize } = this.#spec;
    if (size === 0) return new Float64Array(row.length);
    const token0 = this.#embed(token, 0);
    const projected = this.#product(layer, 'input_projection', token0).map((x) => x / Math.sqrt(hiddenSize));
    const row0 = token < (this.#spec.layerInputTokens ?? Infinity) ? token : 0;
    const own = this.#weight(layer, 'input_embedding').slice(row0 * size, (row0 + 1) * size);
    const input = sum(
      this.#norm(layer, 'input_norm', projected),
      own.map((x) => x * Math.sqrt(size)),
    ).map((x) => x * Math.SQRT1_2);
    if (embedding.size !== hiddenSize) throw new Error('embeddings of another width');
    const activate = ACTIVATIONS[this.#spec.feedForward.activation];
    const gated = this.#product(layer, 'input_gate', row).map((x, i) => activate(x) * (input[i] ?? NaN));
    return this.#norm(layer, 'input_post_norm', this.#product(layer, 'input_out', gated));
  }

  #attend(layer: number, inputs: readonly Vector[]): Vector[] {
    const { attention, position, layerSpecs } = this.#spec;
    const { window = 0, chunked = false, keysOf, scalesQueries = false } = layerSpecs[layer] ?? {};
    const { heads = this.#spec.heads } = layerSpecs[layer] ?? {};
    const { latent, queryScale } = attention;
    const own = latent ? this.#latentHeads(layer, latent, inputs) : this.#plainHeads(layer, inputs);
    const [k, v] = keysOf === undefined ? own.keysAndValues() : (this.#keysAndValues.get(keysOf) ?? [[], []]);
    this.#keysAndValues.set(layer, [k, v]);
    return inputs.map((_, t) => {
      const { factor = 0, first: from = 0, period = 1 } = scalesQueries ? (queryScale ?? {}) : {};
      const scale = attention.scale * (1 + factor * Math.log1p(Math.floor((t + from) / period)));
      const output: number[] = [];
      for (let head = 0; head < heads; head++) {
        const group = Math.floor(head / (heads / (k[0]?.length ?? 1)));
        const first = window === 0 ? 0 : chunked ? t - (t % window) : Math.max(0, t - window + 1);
        const scores = k.slice(first, t + 1).map((keys, i) => {
          if (window === 0 && isLetGo(attention.eviction, first + i, t)) return -Infinity;
          const score = dot(own.q[t]?.[head], keys[group]);
          const bias = alibiBias(position, head, first + i);
          const early = position.kind === 'alibi' && position.roundToBfloat16;
          return softCapped(early ? (score + bias) * scale : score * scale + bias, attention.softCap);
        });
        const sinks = this.#weights.get(`${layer} sinks`);
        const sink = sinks ? [sinks[head] ?? NaN] : [];
        const shares = softmax([...scores, ...sink]).slice(0, scores.length);
        const values = new Float64Array(v[0]?.[group]?.length ?? 0);
        shares.forEach((share, i) =>
          v[first + i]?.[group]?.forEach((x, d) => (values[d] = (values[d] ?? 0) + share * x)),
        );
        output.push(...values);
      }
      const attended = Float64Array.from(output);
      const gate = attention.gate === true ? this.#product(layer, 'q_gate', inputs[t] ?? attended) : undefined;
      return this.#product(
        layer,
        'o',
        attended.map((x, i) => {
          const of = attention.gatesHeads === true ? Math.floor(i / (attended.length / heads)) : i;
          const open = attention.gateActivation === 'softplus' ? softplus : logistic;
          return x * (attention.outputScale ?? 1) * (gate ? open(gate[of] ?? NaN) : 1);
        }),
      );
    });
  }

  #plainHeads(layer: number, inputs: readonly Vector[]): OwnHeads {
    const { attention } = this.#spec;
    const spec = this.#spec.layerSpecs[layer];
    const { heads = this.#spec.heads } = spec ?? {};
    const headDim = spec?.headDim ?? this.#spec.headDim;
    const kvHeads = spec?.kvHeads ?? this.#spec.kvHeads;
    const headsOf = (role: 'q' | 'k' | 'v', count: number): Heads =>
      inputs.map((input, t) => {
        const most = attention.clip ?? Infinity;
        const product = this.#product(layer, role === 'v' && spec?.valuesAreKeys === true ? 'k' : role, input).map(
          (x) => Math.min(Math.max(x, -most), most),
        );
        const row =
          role !== 'v' && attention.qkNorm === 'row'
            ? this.#normOf('rms', product, this.#headNorm(layer, role))
            : product;
        const size = role === 'v' ? (attention.valueDim ?? headDim) : headDim;
        return Array.from({ length: count }, (_, head) => {
          const one = row.slice(head * size, (head + 1) * size);
          if (role !== 'v') return this.#prepareHead(layer, role, head, one, t);
          return attention.valueNorm === true ? this.#normOf('rms', one) : one;
        });
      });
    return { q: headsOf('q', heads), keysAndValues: () => [headsOf('k', kvHeads), headsOf('v', kvHeads)] };
  }

  /** In the expanded form: keys and values of each head. */
  #latentHeads(
    layer: number,
    { rank, queryRank, rotated, plain, value, epsilon, scale = 1 }: LatentSpec,
    inputs: readonly Vector[],
  ): OwnHeads {
    const { heads } = this.#spec;
    const numbers = Array.from({ length: heads }, (_, head) => head);
    const turned = (row: Vector, t: number): Vector => this.#prepareHead(layer, 'q', 0, row, t);
    const q = inputs.map((input, t) => {
      const down = queryRank === 0 ? input : this.#product(layer, 'q_down', input);
      const reduced =
        queryRank === 0 ? down : this.#normOf('rms', down, this.#weight(layer, 'q_down_norm.weight'), epsilon);
      const row = this.#product(layer, 'q', reduced);
      return numbers.map((head) => {
        const one = row.slice(head * (plain + rotated), (head + 1) * (plain + rotated));
        return Float64Array.of(...one.slice(0, plain), ...turned(one.slice(plain), t));
      });
    });
    const rows = inputs.map((input, t) => {
      const row = this.#product(layer, 'latent', input);
      const normed = this.#normOf('rms', row.slice(0, rank), this.#weight(layer, 'latent_norm.weight'), epsilon);
      const latent = normed.map((x) => x * scale);
      return { latent, turned: turned(row.slice(rank), t) };
    });
    const [keys, values] = [this.#weight(layer, 'k_up.weight'), this.#weight(layer, 'v_up.weight')];
    const keyOf = (head: number, latent: Vector): number[] =>
      Array.from({ length: plain }, (_, n) =>
        latent.reduce((all, x, r) => all + x * (keys[(head * rank + r) * plain + n] ?? NaN), 0),
      );
    return {
      q,
      keysAndValues: () => [
        rows.map(({ latent, turned: end }) => numbers.map((head) => Float64Array.of(...keyOf(head, latent), ...end))),
        rows.map(({ latent }) =>
          numbers.map((head) => product(values.subarray(head * value * rank, (head + 1) * value * rank), latent)),
        ),
      ],
    };
  }

  /** Of each element the sum over its channel's last ones. */
  #convolve(
    layer: number,
    role: 'conv' | 'delta_conv' | 'state_conv' | 'scan_conv' | 'lru_conv',
    rows: readonly Vector[],
  ): Vector[] {
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
    const { keyHeads, valueHeads, keyDim, valueDim, tiled, byKey, apart = false, betaScale = 1, epsilon } = sizes;
    const mixed = (input: Vector): Vector =>
      byKey || apart
        ? Float64Array.from(['delta_q', 'delta_k', 'delta_v'].flatMap((role) => [...this.#product(layer, role, input)]))
        : this.#product(layer, 'delta_in', input);
    const reduced = (role: string, input: Vector): Vector =>
      this.#product(layer, role, byKey?.rank ? this.#product(layer, `${role}_in`, input) : input);
    const rates = byKey ? keyDim : 1;
    const rows = this.#convolve(layer, 'delta_conv', inputs.map(mixed)).map((row) => row.map(ACTIVATIONS.silu));
    const states = Array.from({ length: valueHeads }, () =>
      Array.from({ length: keyDim }, () => new Float64Array(valueDim)),
    );
    return inputs.map((input, t) => {
      const row = rows[t] ?? input;
      const [beta, decay] = [this.#product(layer, 'delta_beta', input), reduced('delta_decay', input)];
      const gate = reduced('delta_gate', input);
      const output = new Float64Array(valueHeads * valueDim);
      states.forEach((state, head) => {
        const at = (first: number, count: number): Vector => row.slice(first, first + count);
        const keyHead = (tiled === true ? head % keyHeads : Math.floor(head / (valueHeads / keyHeads))) * keyDim;
        const query = unit(at(keyHead, keyDim)).map((x) => x / Math.sqrt(keyDim));
        const key = unit(at(keyHeads * keyDim + keyHead, keyDim));
        const value = at(2 * keyHeads * keyDim + head * valueDim, valueDim);
        state.forEach((each, k) => {
          const place = head * rates + (k % rates);
          const step = (decay[place] ?? NaN) + (this.#weight(layer, 'decay.bias')[place] ?? NaN);
          const rate = this.#rate(layer, head);
          const least = byKey?.least ?? 0;
          const kept = Math.exp(least === 0 ? -rate * Math.log1p(Math.exp(step)) : least * logistic(rate * step));
          for (let v = 0; v < valueDim; v++) each[v] = (each[v] ?? NaN) * kept;
        });
        const seen = (by: Vector, v: number): number =>
          state.reduce((all, each, k) => all + (each[v] ?? NaN) * (by[k] ?? NaN), 0);
        const change = value.map((x, v) => (x - seen(key, v)) * betaScale * logistic(beta[head] ?? NaN));
        state.forEach((each, k) => {
          for (let v = 0; v < valueDim; v++) each[v] = (each[v] ?? NaN) + (key[k] ?? NaN) * (change[v] ?? NaN);
        });
        const normed = this.#normOf(
          'rms',
          value.map((_, v) => seen(query, v)),
          this.#weight(layer, 'delta_norm.weight'),
          epsilon ?? this.#spec.norm.epsilon,
        );
        normed.forEach((x, v) => {
          const place = head * valueDim + v;
          output[place] = x * (byKey ? logistic : ACTIVATIONS.silu)(gate[place] ?? NaN);
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

  #applyScan(layer: number, inputs: readonly Vector[]): Vector[] {
    const { channels = 0, stateDim = 0, rank = 0, norms } = this.#spec.recurrent?.scan ?? {};
    const projected = inputs.map((input) => this.#product(layer, 'scan_in', input));
    const bias = this.#weights.get(`${layer} scan_conv.bias`);
    const rows = this.#convolve(
      layer,
      'scan_conv',
      projected.map((row) => row.slice(0, channels)),
    ).map((row) => row.map((x, channel) => ACTIVATIONS.silu(x + (bias?.[channel] ?? 0))));
    const normed = (role: string, row: Vector): Vector =>
      norms ? this.#normOf('rms', row, this.#weights.get(`${layer} ${role}.weight`), norms.epsilon) : row;
    const states = Array.from({ length: channels }, () => new Float64Array(stateDim));
    return rows.map((row, t) => {
      const parts = this.#product(layer, 'scan_parts', row);
      const steps = product(
        this.#weight(layer, 'scan_step.weight'),
        normed('scan_step_norm', parts.slice(0, rank)),
        this.#weight(layer, 'decay.bias'),
      );
      const written = normed('scan_written_norm', parts.slice(rank, rank + stateDim));
      const read = normed('scan_read_norm', parts.slice(rank + stateDim));
      const output = row.map((input, c) => {
        const [step, state] = [Math.log1p(Math.exp(steps[c] ?? NaN)), states[c] ?? row];
        let seen = input * (this.#weight(layer, 'scan_skip')[c] ?? NaN);
        for (let n = 0; n < stateDim; n++) {
          const kept = Math.exp(-this.#rate(layer, c * stateDim + n) * step);
          state[n] = (state[n] ?? NaN) * kept + step * input * (written[n] ?? NaN);
          seen += (state[n] ?? NaN) * (read[n] ?? NaN);
        }
        return seen * ACTIVATIONS.silu(projected[t]?.[channels + c] ?? NaN);
      });
      return this.#product(layer, 'scan_out', output);
    });
  }

  #applyLightning(layer: number, inputs: readonly Vector[]): Vector[] {
    const { heads = 0, headDim = 0, epsilon = 0 } = this.#spec.recurrent?.lightning ?? {};
    const decays = this.#spec.layerSpecs[layer]?.decays;
    const states = Array.from({ length: heads * headDim }, () => new Float64Array(headDim));
    return inputs.map((input) => {
      const row = this.#product(layer, 'lightning_in', input).map(ACTIVATIONS.silu);
      const part = (head: number, index: number): Vector => {
        const first = (3 * head + index) * headDim;
        return row.slice(first, first + headDim);
      };
      const output = new Float64Array(heads * headDim);
      states.forEach((state, at) => {
        const head = Math.floor(at / headDim);
        const [query, key] = [part(head, 0), part(head, 1)];
        const value = part(head, 2)[at % headDim] ?? NaN;
        for (let k = 0; k < headDim; k++) {
          state[k] = (state[k] ?? NaN) * (decays?.[head] ?? NaN) + (key[k] ?? NaN) * value;
          output[at] = (output[at] ?? NaN) + (state[k] ?? NaN) * (query[k] ?? NaN);
        }
      });
      const gate = this.#product(layer, 'lightning_gate', input);
      const normed = this.#normOf('rms', output, this.#weight(layer, 'lightning_norm.weight'), epsilon);
      return this.#product(
        layer,
        'lightning_out',
        normed.map((x, i) => x * logistic(gate[i] ?? NaN)),
      );
    });
  }

  #applyRgLru(layer: number, inputs: readonly Vector[]): Vector[] {
    const { blockDim = 0 } = this.#spec.recurrent?.lru ?? {};
    const activate = ACTIVATIONS[this.#spec.feedForward.activation];
    const bias = this.#weight(layer, 'lru_conv.bias');
    const rows = this.#convolve(
      layer,
      'lru_conv',
      inputs.map((input) => this.#product(layer, 'lru_in', input)),
    ).map((row) => row.map((x, channel) => x + (bias[channel] ?? NaN)));
    const gate = (role: 'lru_input' | 'lru_forget', row: Vector, channel: number): number => {
      const weight = this.#weight(layer, `${role}.weight`);
      let sum = this.#weight(layer, `${role}.bias`)[channel] ?? NaN;
      const first = channel - (channel % blockDim);
      for (let i = first; i < first + blockDim; i++)
        sum += (row[i] ?? NaN) * (weight[i * blockDim + (channel % blockDim)] ?? NaN);
      return logistic(sum);
    };
    const state = new Float64Array(bias.length);
    return rows.map((row, t) => {
      const beside = this.#product(layer, 'lru_gate', inputs[t] ?? row);
      const output = row.map((x, c) => {
        const rate = Math.log1p(Math.exp(this.#weight(layer, 'lru_rate')[c] ?? NaN));
        const left = Math.exp(-8 * gate('lru_forget', row, c) * rate);
        const share = t === 0 ? 1 : Math.sqrt(1 - left * left);
        state[c] = left * (state[c] ?? NaN) + x * gate('lru_input', row, c) * share;
        return (state[c] ?? NaN) * activate(beside[c] ?? NaN);
      });
      return this.#product(layer, 'lru_out', output);
    });
  }

  #applyStateSpace(layer: number, inputs: readonly Vector[], out = 'state_out'): Vector[] {
    const sizes = this.#spec.recurrent?.stateSpace;
    if (!sizes) throw new Error('no sizes of a state space');
    const { heads, headDim, stateDim, groups, leastTimeStep = 0, mostTimeStep = Infinity } = sizes;
    const { norm = 'gated', scales } = sizes;
    const values = heads * headDim;
    const convolved = values + 2 * groups * stateDim;
    const scaleOf = (i: number): number => {
      if (!scales) return 1;
      if (i < values) return scales.values;
      if (i < convolved) return i < values + groups * stateDim ? scales.written : scales.read;
      return i < convolved + values ? scales.gate : scales.step;
    };
    const projected = inputs.map((input) => this.#product(layer, 'state_in', input).map((x, i) => x * scaleOf(i)));
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
        output[element] = seen;
      });
      const gated = (row: Vector): Vector => row.map((x, i) => x * ACTIVATIONS.silu(whole[convolved + i] ?? NaN));
      const size = values / groups;
      const normed = (row: Vector): Vector =>
        Float64Array.from(
          Array.from({ length: groups }, (_, group) => {
            const [first, end] = [group * size, (group + 1) * size];
            const weight = this.#weight(layer, 'state_norm.weight').slice(first, end);
            return [...this.#normOf('rms', row.slice(first, end), weight)];
          }).flat(),
        );
      const made = norm === 'none' ? gated(output) : norm === 'first' ? gated(normed(output)) : normed(gated(output));
      return this.#product(
        layer,
        out,
        made.map((x) => x * (scales?.output ?? 1)),
      );
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
      case 'unit':
        return table === undefined ? row : this.#normOf('rms', turn(row));
      case 'layer': {
        const own = this.#headNorm(layer, role).slice(head * headDim, (head + 1) * headDim);
        const biases = this.#weights.get(`${layer} ${role}_norm.bias`)?.slice(head * headDim, (head + 1) * headDim);
        return turn(this.#normOf('layer', row, own).map((x, i) => x + (biases?.[i] ?? 0)));
      }
      default:
        return turn(row);
    }
  }

  /** @param before what its input was before it was normed */
  #feedForward(layer: number, input: Vector, before = input, token = 0): Vector {
    const { feedForward } = this.#spec;
    const { xielu } = this.#spec.layerSpecs[layer] ?? {};
    const activate = xielu
      ? (x: number): number =>
          (x > 0 ? xielu.positive * x * x : (Math.expm1(Math.min(x, xielu.epsilon)) - x) * xielu.negative) +
          xielu.beta * x
      : ACTIVATIONS[feedForward.activation];
    const factor = (x: number): number =>
      feedForward.activation === 'clamped-swiglu' ? Math.min(Math.max(x, -7), 7) + 1 : x;
    const beside = this.#spec.layerSpecs[layer]?.dense === true ? undefined : feedForward.experts?.shared;
    const innerScale = (prefix: string): number => (prefix === '' ? (beside?.scale ?? feedForward.innerScale ?? 1) : 1);
    const gated = (prefix: string, of = input): Vector => {
      const up = this.#product(layer, `${prefix}up`, of);
      if (feedForward.experts?.gateless === true) return this.#product(layer, `${prefix}down`, up.map(activate));
      return this.#product(
        layer,
        `${prefix}down`,
        this.#cutOff(layer, this.#product(layer, `${prefix}gate`, of)).map(
          (x, i) => activate(x * (feedForward.gateScale ?? 1)) * factor(up[i] ?? NaN) * innerScale(prefix),
        ),
      );
    };
    if (feedForward.kind === 'gated') return gated('');
    if (feedForward.kind === 'plain')
      return this.#product(layer, 'down', this.#product(layer, 'up', input).map(activate));
    if (this.#spec.layerSpecs[layer]?.dense === true) return gated('');
    const { shared, router, count = 0, aside = false } = feedForward.experts ?? {};
    const apart = shared?.apart === true;
    const read = apart ? this.#norm(layer, 'experts_norm', before) : input;
    const routed = this.#chosen(layer, apart ? this.#norm(layer, 'router_norm', before) : input)
      .map(({ share, expert }) =>
        expert >= count
          ? read.map((x) => x * share)
          : router?.weighsInputs === true
            ? gated(
                `expert.${expert}.`,
                read.map((x) => x * share),
              )
            : gated(`expert.${expert}.`, read).map((x) => x * share),
      )
      .reduce<Vector>(sum, new Float64Array(input.length));
    if (shared === undefined) return routed;
    if (aside) {
      this.#aside[token] = routed;
      return gated('');
    }
    if (apart)
      return sum(this.#norm(layer, 'post_experts_norm', routed), this.#norm(layer, 'post_block_norm', gated('')));
    const share = shared.gate ? logistic(this.#product(layer, 'shared_gate', input)[0] ?? NaN) : 1;
    return sum(
      routed,
      gated('').map((x) => x * share),
    );
  }

  /** What is above a gate's mean by so many standard deviations. */
  #cutOff(layer: number, row: Vector): Vector {
    const { gateDeviations } = this.#spec.layerSpecs[layer] ?? {};
    if (gateDeviations === undefined) return row;
    const mean = row.reduce((all, x) => all + x, 0) / row.length;
    const variance = row.reduce((all, x) => all + (x - mean) ** 2, 0) / row.length;
    return row.map((x) => Math.max(0, x - mean - gateDeviations * Math.sqrt(variance)));
  }

  /** The experts of a token, and what they weigh. */
  #chosen(layer: number, input: Vector): { readonly share: number; readonly expert: number }[] {
    const { perToken = 0, router } = this.#spec.feedForward.experts ?? {};
    const logits = [...this.#product(layer, 'router', input)].map((x) => x * (router?.logitScale ?? 1));
    if (router?.score === 'sparse-mixer') return sparselyChosen(logits, perToken, router.jitter ?? 0);
    const scores = router?.score === 'sigmoid' ? logits.map(logistic) : softmax(logits);
    const bias = this.#weights.get(`${layer} router.choice_bias`);
    const wanted = (router?.choosesByLogits === true ? logits : scores).map(
      (score, expert) => score + (bias?.[expert] ?? 0),
    );
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
    const own = this.#weights.get(`${layer} expert_scale`);
    const factor = (expert: number): number => ((router?.scale ?? 1) * (own?.[expert] ?? 1)) / total;
    return chosen.map(({ share, expert }) => ({ expert, share: share * factor(expert) }));
  }

  #norm(layer: number, name: string, row: Vector): Vector {
    const { kind, epsilon, unweighted = false } = this.#spec.norm;
    const weight = unweighted ? undefined : this.#weight(layer, `${name}.weight`);
    return this.#normOf(kind, row, weight, epsilon, this.#weights.get(`${layer} ${name}.bias`));
  }

  #normOf(
    kind: 'rms' | 'layer',
    row: Vector,
    weight?: Vector,
    epsilon = this.#spec.norm.epsilon,
    bias?: Vector,
  ): Vector {
    const mean = kind === 'layer' ? row.reduce((all, x) => all + x, 0) / row.length : 0;
    const variance = row.reduce((all, x) => all + (x - mean) ** 2, 0) / row.length;
    return row.map(
      (x, i) => ((x - mean) / Math.sqrt(variance + epsilon)) * (weight ? (weight[i] ?? NaN) : 1) + (bias?.[i] ?? 0),
    );
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

/** Queries, and keys and values where a layer has some. */
interface OwnHeads {
  readonly q: Heads;
  readonly keysAndValues: () => readonly [Heads, Heads];
}

/** A row whose squares have the mean of another one's. */
function asLarge(wanted: Vector, row: Vector): Vector {
  const square = (x: Vector): number => x.reduce((all, each) => all + each * each, 0) / x.length;
  return row.map((x) => x * Math.sqrt(square(wanted) / Math.max(square(row), 1e-5)));
}

/** Of length 1. */
function unit(x: Vector): Vector {
  const length = Math.sqrt(x.reduce((all, each) => all + each * each, 0) + 1e-6);
  return x.map((each) => each / length);
}

const ACTIVATIONS: Readonly<Record<DecoderSpec['feedForward']['activation'], (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  'relu-squared': (x) => Math.max(x, 0) ** 2,
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  'gelu-tanh': (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
  xielu: () => NaN,
  'clamped-swiglu': (x) => Math.min(x, 7) / (1 + Math.exp(-1.702 * Math.min(x, 7))),
};

/** Of each choice the softmax over what is near it, of what was not chosen before. */
function sparselyChosen(
  logits: readonly number[],
  count: number,
  jitter: number,
): { readonly share: number; readonly expert: number }[] {
  const left = new Map(logits.entries());
  return Array.from({ length: count }, () => {
    const [expert, most] = [...left].sort(([, a], [, b]) => b - a)[0] ?? [-1, NaN];
    const near = [...left.values()].filter((x) => (most - x) / Math.max(Math.abs(x), most) <= 2 * jitter);
    left.delete(expert);
    return { expert, share: 1 / near.reduce((all, x) => all + Math.exp(x - most), 0) };
  });
}

const softplus = (x: number): number => Math.log1p(Math.exp(x));
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

function rotate(head: Vector, position: number, table: RotaryTable, { style }: { style: 'pairs' | 'halves' }): Vector {
  const rotated = head.slice();
  const dims = 2 * table.frequencies.length;
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

/** A branch added to what was there, by the weights of both. */
function weighed({ kept, added }: BranchSum = { kept: 1, added: 1 }, row: Vector, branch: Vector): Vector {
  return row.map((x, i) => kept * x + added * (branch[i] ?? NaN));
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
