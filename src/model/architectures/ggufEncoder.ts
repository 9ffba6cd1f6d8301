import type { DecoderSpec } from '../DecoderSpec.js';
import { encoder } from './encoder.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS } from './Fields.js';
import { dividedHeadDim } from './specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, weights } from './weights.js';

/** An encoder of GGUF as its metadata describe it; its feed-forward block is the family's. */
export function ggufEncoder(
  family: string,
  { fields, tensors }: GgufModel,
  position: DecoderSpec['position'],
): Omit<DecoderSpec, 'feedForward'> {
  if (fields.boolean('attention.causal', false)) fields.refuse('attention.causal', 'false: this is an encoder');
  const hiddenSize = fields.integer('embedding_length', LIMITS.hidden);
  const heads = fields.uniformInteger('attention.head_count', LIMITS.heads);
  dividedHeadDim(fields, hiddenSize, heads, 'attention.head_count');
  const rowsOf = (name: string, most: number): number | undefined => {
    const rows = tensors.find(name)?.shape[0];
    return rows === undefined ? undefined : Math.min(Math.max(rows, 1), most);
  };
  return encoder({
    family,
    hiddenSize,
    heads,
    layers: fields.integer('block_count', LIMITS.layers),
    vocabularySize:
      rowsOf('token_embd.weight', LIMITS.vocabulary.max) ?? fields.integer('vocab_size', LIMITS.vocabulary),
    contextTokens: fields.integer('context_length', LIMITS.context),
    feedForwardSize: fields.uniformInteger('feed_forward_length', LIMITS.feedForward),
    epsilon: fields.number('attention.layer_norm_epsilon', LIMITS.epsilon, 1e-12),
    tokenTypes: rowsOf('token_types.weight', 1024) ?? 0,
    position,
    feedForward: { kind: 'plain', activation: 'gelu' },
  });
}

export function ggufEncoderGlobals(): WeightSource[] {
  return [
    ...weights('', { token_embedding: 'token_embd.weight', 'embedding_norm.weight': 'token_embd_norm.weight' }),
    ...weights(
      '',
      { 'embedding_norm.bias': 'token_embd_norm.bias', type_embedding: 'token_types.weight' },
      { optional: true },
    ),
  ];
}

/** Layers with norms after both branches. */
export function ggufEncoderLayers({ fields, tensors }: GgufModel, gated: boolean): WeightSource[] {
  const hiddenSize = fields.integer('embedding_length', LIMITS.hidden);
  const heads = fields.uniformInteger('attention.head_count', LIMITS.heads);
  const shape = { heads, kvHeads: heads, headDim: hiddenSize / heads };
  const separate = tensors.has('blk.0.attn_q.weight');
  const optional = { optional: true };
  return [
    ...(separate
      ? [
          ...weights(GGUF_LAYER, {
            'q.weight': 'attn_q.weight',
            'k.weight': 'attn_k.weight',
            'v.weight': 'attn_v.weight',
          }),
          ...weights(
            GGUF_LAYER,
            { 'q.bias': 'attn_q.bias', 'k.bias': 'attn_k.bias', 'v.bias': 'attn_v.bias' },
            optional,
          ),
        ]
      : [
          ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, shape, 1, ['weight']),
          ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, shape, 1, ['bias'], optional),
        ]),
    ...weights(GGUF_LAYER, {
      'o.weight': 'attn_output.weight',
      'up.weight': 'ffn_up.weight',
      'down.weight': 'ffn_down.weight',
      ...(gated && { 'gate.weight': 'ffn_gate.weight' }),
    }),
    ...weights(
      GGUF_LAYER,
      { 'o.bias': 'attn_output.bias', 'up.bias': 'ffn_up.bias', 'down.bias': 'ffn_down.bias' },
      optional,
    ),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_output_norm.weight',
      'norm1.bias': 'attn_output_norm.bias',
      'norm2.weight': 'layer_output_norm.weight',
      'norm2.bias': 'layer_output_norm.bias',
    }),
  ];
}
