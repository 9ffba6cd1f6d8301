// OPT's sizes (Zhang et al. 2022, table 1), and what a model of such a shape takes; the feed-forward block is four
// times as wide as the hidden states.

/** By name: layers, heads, hidden size. */
export const OPT_SHAPES = {
  'opt-125m': { layers: 12, heads: 12, hiddenSize: 768 },
  'opt-1.3b': { layers: 24, heads: 32, hiddenSize: 2048 },
  'opt-6.7b': { layers: 32, heads: 32, hiddenSize: 4096 },
  'opt-30b': { layers: 48, heads: 56, hiddenSize: 7168 },
};
const VOCABULARY = 50272;
const CONTEXT_TOKENS = 2048;
/** The table of positions has two rows that belong to none. */
const POSITION_OFFSET = 2;
const BYTES = 2;

/** A shape with what it leaves out. */
export function wholeShape({ vocabularySize = VOCABULARY, contextTokens = CONTEXT_TOKENS, ...shape }) {
  return { vocabularySize, contextTokens, ...shape };
}

/** What config.json says, as transformers writes it. */
export function optConfig(shape) {
  const { layers, heads, hiddenSize, vocabularySize, contextTokens } = wholeShape(shape);
  return {
    architectures: ['OPTForCausalLM'],
    model_type: 'opt',
    torch_dtype: 'float16',
    activation_function: 'relu',
    do_layer_norm_before: true,
    enable_bias: true,
    tie_word_embeddings: true,
    layer_norm_elementwise_affine: true,
    hidden_size: hiddenSize,
    word_embed_proj_dim: hiddenSize,
    ffn_dim: 4 * hiddenSize,
    num_attention_heads: heads,
    num_hidden_layers: layers,
    vocab_size: vocabularySize,
    max_position_embeddings: contextTokens,
    bos_token_id: 2,
    eos_token_id: 2,
    pad_token_id: 1,
  };
}

/** Tensors that are no layer's: name, shape, and the standard deviation of its weights (`one`: all are 1). */
export function globalTensors(shape) {
  const { hiddenSize, vocabularySize, contextTokens } = wholeShape(shape);
  const base = 'model.decoder.';
  return [
    { name: `${base}embed_tokens.weight`, shape: [vocabularySize, hiddenSize], deviation: 1.4 / Math.sqrt(hiddenSize) },
    {
      name: `${base}embed_positions.weight`,
      shape: [contextTokens + POSITION_OFFSET, hiddenSize],
      deviation: 1.4 / Math.sqrt(hiddenSize),
    },
    { name: `${base}final_layer_norm.weight`, shape: [hiddenSize], one: true },
    { name: `${base}final_layer_norm.bias`, shape: [hiddenSize], deviation: 0.02 },
  ];
}

/**
 * A layer's tensors, likewise. Activations stay of one size over all layers with deviations of about 1 / sqrt(inputs).
 */
export function layerTensors({ hiddenSize }, layer) {
  const base = `model.decoder.layers.${layer}.`;
  const inner = 4 * hiddenSize;
  const matrix = (name, outputs, inputs) => [
    { name: `${base}${name}.weight`, shape: [outputs, inputs], deviation: 1 / Math.sqrt(inputs) },
    { name: `${base}${name}.bias`, shape: [outputs], deviation: 0.02 },
  ];
  const norm = (name) => [
    { name: `${base}${name}.weight`, shape: [hiddenSize], one: true },
    { name: `${base}${name}.bias`, shape: [hiddenSize], deviation: 0.02 },
  ];
  return [
    ...norm('self_attn_layer_norm'),
    ...['q_proj', 'k_proj', 'v_proj', 'out_proj'].flatMap((name) =>
      matrix(`self_attn.${name}`, hiddenSize, hiddenSize),
    ),
    ...norm('final_layer_norm'),
    ...matrix('fc1', inner, hiddenSize),
    ...matrix('fc2', hiddenSize, inner),
  ];
}

export function elementsOf({ shape }) {
  return shape.reduce((product, size) => product * size, 1);
}

function bytesOf(tensors) {
  return tensors.reduce((sum, tensor) => sum + elementsOf(tensor) * BYTES, 0);
}

/**
 * Bytes of the weights in 16 bits: of a layer, of what is no layer's, of all; and of the keys and values of a token.
 */
export function optBytes(shape) {
  const [layer, global] = [bytesOf(layerTensors(shape, 0)), bytesOf(globalTensors(shape))];
  return {
    layer,
    global,
    total: shape.layers * layer + global,
    cacheToken: 2 * BYTES * shape.hiddenSize * shape.layers,
  };
}
