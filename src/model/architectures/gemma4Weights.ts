import type { DecoderSpec } from '../DecoderSpec.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LLAMA_LAYER } from './gatedDecoder.js';
import { GGUF_LAYER, ggufGlobals, head, stackedExperts, weights } from './weights.js';

const owns =
  ({ layerSpecs: layers }: DecoderSpec) =>
  (layer: number): boolean =>
    layers[layer]?.keysOf === undefined;
const ownsValues =
  ({ layerSpecs: layers }: DecoderSpec) =>
  (layer: number): boolean =>
    layers[layer]?.keysOf === undefined && layers[layer]?.valuesAreKeys !== true;

/** The weights of Gemma 4 in safetensors. */
export function gemma4Weights(decoder: DecoderSpec, tied: boolean): WeightSource[] {
  const { count = 0, shared } = decoder.feedForward.experts ?? {};
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
    head('lm_head.weight', tied),
    ...weights(LLAMA_LAYER, {
      'norm1.weight': 'input_layernorm.weight',
      'post_norm1.weight': 'post_attention_layernorm.weight',
      'norm2.weight': 'pre_feedforward_layernorm.weight',
      'post_norm2.weight': 'post_feedforward_layernorm.weight',
      'q.weight': 'self_attn.q_proj.weight',
      'o.weight': 'self_attn.o_proj.weight',
      'q_norm.weight': 'self_attn.q_norm.weight',
      'gate.weight': 'mlp.gate_proj.weight',
      'up.weight': 'mlp.up_proj.weight',
      'down.weight': 'mlp.down_proj.weight',
      ...(decoder.layerScale === true && { layer_scale: 'layer_scalar' }),
    }),
    ...withLayers(
      owns(decoder),
      weights(LLAMA_LAYER, { 'k.weight': 'self_attn.k_proj.weight', 'k_norm.weight': 'self_attn.k_norm.weight' }),
    ),
    ...withLayers(ownsValues(decoder), weights(LLAMA_LAYER, { 'v.weight': 'self_attn.v_proj.weight' })),
    ...((decoder.layerInputs ?? 0) > 0
      ? [
          ...inputs(
            '{base}embed_tokens_per_layer',
            '{base}per_layer_model_projection',
            '{base}per_layer_projection_norm',
          ),
          ...weights(LLAMA_LAYER, {
            'input_gate.weight': 'per_layer_input_gate.weight',
            'input_out.weight': 'per_layer_projection.weight',
            'input_post_norm.weight': 'post_per_layer_input_norm.weight',
          }),
        ]
      : []),
    ...(shared
      ? [
          ...weights(LLAMA_LAYER, {
            'router.weight': 'router.proj.weight',
            'router_norm.weight': 'router.scale',
            expert_scale: 'router.per_expert_scale',
            'experts_norm.weight': 'pre_feedforward_layernorm_2.weight',
            'post_block_norm.weight': 'post_feedforward_layernorm_1.weight',
            'post_experts_norm.weight': 'post_feedforward_layernorm_2.weight',
          }),
          ...stackedExperts(count, 'weight', (role) => ({
            tensor: `${LLAMA_LAYER}experts.${role === 'down' ? 'down' : 'gate_up'}_proj`,
            ...(role !== 'down' && { part: halfOf(decoder, role) }),
          })),
        ]
      : []),
  ];
}

const withLayers = (layers: (layer: number) => boolean, sources: readonly WeightSource[]): WeightSource[] =>
  sources.map((source) => ({ ...source, layers }));

const halfOf = ({ feedForwardSize }: DecoderSpec, role: 'gate' | 'up'): NonNullable<WeightSource['part']> => ({
  groups: 1,
  sizes: [feedForwardSize, feedForwardSize],
  index: role === 'gate' ? 0 : 1,
});

/** Lists the weights that make all layers' inputs, in tensors of all layers. */
function inputs(embedding: string, projection: string, norm: string): WeightSource[] {
  return [
    { role: 'input_embedding', tensor: `${embedding}.weight`, ofAllLayers: 'columns' },
    { role: 'input_projection.weight', tensor: `${projection}.weight`, ofAllLayers: 'rows' },
    { role: 'input_norm.weight', tensor: `${norm}.weight`, ofAllLayers: 'same' },
  ];
}

/** The same in GGUF. */
export function gemma4GgufWeights(decoder: DecoderSpec, { tensors }: GgufModel): WeightSource[] {
  const { count = 0, shared } = decoder.feedForward.experts ?? {};
  const fused = tensors.has('blk.0.ffn_gate_up_exps.weight');
  return [
    ...ggufGlobals(),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_norm.weight',
      'post_norm1.weight': 'post_attention_norm.weight',
      'norm2.weight': 'ffn_norm.weight',
      'post_norm2.weight': 'post_ffw_norm.weight',
      'q.weight': 'attn_q.weight',
      'o.weight': 'attn_output.weight',
      'q_norm.weight': 'attn_q_norm.weight',
      'gate.weight': 'ffn_gate.weight',
      'up.weight': 'ffn_up.weight',
      'down.weight': 'ffn_down.weight',
      ...(decoder.layerScale === true && { layer_scale: 'layer_output_scale.weight' }),
    }),
    ...withLayers(
      owns(decoder),
      weights(GGUF_LAYER, { 'k.weight': 'attn_k.weight', 'k_norm.weight': 'attn_k_norm.weight' }),
    ),
    ...withLayers(ownsValues(decoder), weights(GGUF_LAYER, { 'v.weight': 'attn_v.weight' })),
    ...((decoder.layerInputs ?? 0) > 0
      ? [
          ...inputs('per_layer_token_embd', 'per_layer_model_proj', 'per_layer_proj_norm'),
          ...weights(GGUF_LAYER, {
            'input_gate.weight': 'inp_gate.weight',
            'input_out.weight': 'proj.weight',
            'input_post_norm.weight': 'post_norm.weight',
          }),
        ]
      : []),
    ...(shared
      ? [
          ...weights(GGUF_LAYER, {
            'router.weight': 'ffn_gate_inp.weight',
            'router_norm.weight': 'ffn_gate_inp.scale',
            expert_scale: 'ffn_down_exps.scale',
            'experts_norm.weight': 'pre_ffw_norm_2.weight',
            'post_block_norm.weight': 'post_ffw_norm_1.weight',
            'post_experts_norm.weight': 'post_ffw_norm_2.weight',
          }),
          ...stackedExperts(count, 'weight', (role) =>
            fused && role !== 'down'
              ? { tensor: `${GGUF_LAYER}ffn_gate_up_exps.weight`, part: halfOf(decoder, role) }
              : { tensor: `${GGUF_LAYER}ffn_${role}_exps.weight` },
          ),
        ]
      : []),
  ];
}
