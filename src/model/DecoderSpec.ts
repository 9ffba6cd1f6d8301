/**
 * A decoder-only transformer, as data. An architecture file (`architectures/`) turns a model's configuration into this
 * table; the native addon executes it. A new model family needs no code beyond its own table where the pieces exist.
 */
export interface DecoderSpec {
  /** The family as its own files call it: `llama`, `opt`, `gpt_neox`, … */
  readonly family: string;
  readonly layers: number;
  /**
   * Where these are a part of a model's layers: the number of the first one, and how many the model has. Only the first
   * layer embeds, only the last samples.
   */
  readonly part?: { readonly firstLayer: number; readonly modelLayers: number };
  /**
   * Where these are a share of every layer: which one of how many. Heads, key and value heads and inner width are the
   * share's. Only the first share embeds and samples. Never beside `part`.
   */
  readonly share?: { readonly index: number; readonly of: number };
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  /** Tokens of prompt and answer together that the model's position encoding was made for. */
  readonly contextTokens: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Inner width of the feed-forward block (of one expert, for a mixture). */
  readonly feedForwardSize: number;

  readonly norm: { readonly kind: 'rms' | 'layer'; readonly epsilon: number };
  /**
   * Where the norms stand and how the branches are added.
   * - `pre`: h += attn(norm1 h); h += ffn(norm2 h)
   * - `post` (OPT-350m): h = norm1(h + attn h); h = norm2(h + ffn h)
   * - `sandwich` (Gemma 2 and 3): h += postNorm1(attn(norm1 h)); h += postNorm2(ffn(norm2 h))
   * - `parallel` (GPT-NeoX, Falcon): h += attn(norm1 h) + ffn(norm2 h); without a norm2 tensor both read norm1 h
   */
  readonly residual: 'pre' | 'post' | 'sandwich' | 'parallel';
  /** A norm after the last layer, before the head. False for OPT-350m. */
  readonly finalNorm: boolean;

  readonly embedding: {
    /** Width of an embedding row; differs from `hiddenSize` only with projections (OPT-350m). */
    readonly size: number;
    /** Embeddings are multiplied by this (Gemma: sqrt(hidden)); 1 for most. */
    readonly scale: number;
  };

  readonly attention: {
    /** Factor on query · key before the softmax. */
    readonly scale: number;
    /** Scores become softCap * tanh(score / softCap) (Gemma 2); absent: they do not. Never beside ALiBi. */
    readonly softCap?: number;
    /** RMS norm over each head of q and k before the rotation (Qwen3, Gemma 3). */
    readonly qkNorm: boolean;
    /**
     * Each head has a score of its own that counts in the softmax's sum and has no value (gpt-oss). Default: it has
     * none.
     */
    readonly sinks?: boolean;
    /** What attention gives is multiplied by the sigmoid of one more projection (Qwen 3.5). Default: not. */
    readonly gate?: boolean;
  };

  /** Of layers that remember a state of constant size instead of keys and values; absent where there are none. */
  readonly recurrent?: {
    /** Tokens that the convolution over each channel sees, the newest included. */
    readonly taps: number;
    /** Sizes of the gated delta rule; absent where no layer has it. */
    readonly delta?: {
      readonly keyHeads: number;
      /** A multiple of `keyHeads`. */
      readonly valueHeads: number;
      readonly keyDim: number;
      readonly valueDim: number;
    };
  };

  readonly position:
    | {
        readonly kind: 'rotary';
        /** Which elements of a head are rotated together: neighbours (2i, 2i+1), or halves (i, i + dims/2). */
        readonly style: 'pairs' | 'halves';
        /** Leading elements of a head that are rotated; even, at most `headDim`. */
        readonly dims: number;
        /** Tables that layers refer to by index. */
        readonly tables: readonly RotaryTable[];
      }
    | { readonly kind: 'learned'; /** Row of the position table for position 0 (OPT: 2). */ readonly offset: number }
    | {
        readonly kind: 'alibi';
        /** One slope a head, already multiplied by whatever the family multiplies it by. */
        readonly slopes: Float32Array;
        /**
         * Falcon rounds slope and slope x position to bfloat16 and adds the bias before scaling: score = (q · k + bias)
         * x scale.
         */
        readonly roundToBfloat16: boolean;
      };

  readonly feedForward: {
    /**
     * `plain`: down(act(up x)); `gated`: down(act(gate x) * up x); `experts`: a router picks some gated blocks for each
     * token.
     */
    readonly kind: 'plain' | 'gated' | 'experts';
    /**
     * `clamped-swiglu` (gpt-oss), of gated blocks alone: gate is at most 7, up within +-7, and their product is gate *
     * sigmoid(1.702 gate) * (up + 1).
     */
    readonly activation: 'relu' | 'gelu' | 'gelu-tanh' | 'silu' | 'clamped-swiglu';
    /**
     * With `experts` only: how many there are, and how many a token uses (softmax over all, the best few, divided by
     * their sum).
     */
    readonly experts?: { readonly count: number; readonly perToken: number };
  };

  /** Logits become logitSoftCap * tanh(logit / logitSoftCap) (Gemma 2); absent: they do not. */
  readonly logitSoftCap?: number;

  /** What differs from layer to layer; one entry a layer. */
  readonly layerSpecs: readonly LayerSpec[];
}

/**
 * What mixes the tokens of a layer.
 * - `attention`
 * - `delta-rule` (Qwen 3.5): queries, keys and values through a short convolution, then a state by the gated delta
 *   rule, normed and gated
 * - `short-convolution` (LFM2): C * convolution(B * x)
 */
export type Mixer = 'attention' | 'delta-rule' | 'short-convolution';

export interface LayerSpec {
  /** Default: `attention`. */
  readonly mixer?: Mixer;
  /** Sliding window: query i sees keys i - window + 1 to i. 0 means all of them. */
  readonly window: number;
  /** Index into the rotary tables; 0 where there is no rotary encoding. */
  readonly rotaryTable: number;
}

export interface RotaryTable {
  /** dims/2 angular frequencies: the angle of pair i at position p is p * frequencies[i], in float32. */
  readonly frequencies: Float32Array;
  /** Factor on cos and sin (YaRN, LongRoPE: attention factor); 1 for most. */
  readonly scale: number;
}
