import type { DecoderSpec, LayerSpec } from '../DecoderSpec.js';
import type { GlobalRole, LayerRole } from '../TensorBinding.js';
import { stateSpaceWidths } from './mixers.js';

type ExpertRole = `${'gate' | 'up' | 'down'}.${'weight' | 'bias'}`;

/**
 * The shape that the decoder needs for a role: [outputs, inputs] of a matrix, [elements] of a vector.
 * @param layer of a role of layers
 */
export function roleShape(
  decoder: DecoderSpec,
  role: GlobalRole | LayerRole,
  layer: LayerSpec | undefined,
): readonly [number] | readonly [number, number] {
  const { hiddenSize, vocabularySize } = decoder;
  const headDim = layer?.headDim ?? decoder.headDim;
  const latent = decoder.attention.latent;
  const { rank = 0, queryRank = 0, plain = 0, value = 0, rotated = 0 } = latent ?? {};
  const layerInputs = decoder.layerInputs ?? 0;
  const { count = 0, identities = 0 } = decoder.feedForward.experts ?? {};
  const routed = count + identities;
  const inner = innerWidth(decoder, layer);
  const { qkNorm } = decoder.attention;
  const heads = layer?.heads ?? decoder.heads;
  const queries = heads * (latent ? plain + rotated : headDim);
  const valueOfHead = decoder.attention.valueDim ?? headDim;
  const kvHeads = layer?.kvHeads ?? decoder.kvHeads;
  const keys = kvHeads * headDim;
  const taps = decoder.recurrent?.taps ?? 0;
  const { keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0, byKey } = decoder.recurrent?.delta ?? {};
  const deltaDecays = valueHeads * (byKey ? keyDim : 1);
  const deltaInputs = byKey?.rank || hiddenSize;
  const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
  const space = stateSpaceWidths(decoder);
  const scan = decoder.recurrent?.scan ?? { channels: 0, stateDim: 0, rank: 0 };
  const lightning = decoder.recurrent?.lightning ?? { heads: 0, headDim: 0 };
  const read = lightning.heads * lightning.headDim;
  const streams = decoder.streams ?? { count: 1, bypassRank: 0 };
  const decaying =
    layer?.mixer === 'selective-scan' ? scan.channels : layer?.mixer === 'delta-rule' ? valueHeads : space.heads;
  const embedded = decoder.embedding.factorised === true ? decoder.embedding.size : hiddenSize;
  switch (role) {
    case 'q_gate.weight':
      return [decoder.attention.gatesHeads === true ? heads : queries, hiddenSize];
    case 'conv.weight':
      return [hiddenSize * taps];
    case 'conv_in.weight':
      return [3 * hiddenSize, hiddenSize];
    case 'conv_out.weight':
      return [hiddenSize, hiddenSize];
    case 'delta_conv.weight':
      return [channels * taps];
    case 'decay.log':
    case 'decay.negated':
      return [decaying * (layer?.mixer === 'selective-scan' ? scan.stateDim : 1)];
    case 'decay.bias':
      return [layer?.mixer === 'delta-rule' ? deltaDecays : decaying];
    case 'scan_conv.weight':
      return [scan.channels * taps];
    case 'scan_conv.bias':
    case 'scan_skip':
      return [scan.channels];
    case 'scan_in.weight':
      return [2 * scan.channels, hiddenSize];
    case 'scan_in.bias':
      return [2 * scan.channels];
    case 'scan_parts.weight':
      return [scan.rank + 2 * scan.stateDim, scan.channels];
    case 'scan_step_norm.weight':
      return [scan.rank];
    case 'scan_written_norm.weight':
    case 'scan_read_norm.weight':
      return [scan.stateDim];
    case 'scan_step.weight':
      return [scan.channels, scan.rank];
    case 'scan_out.weight':
      return [hiddenSize, scan.channels];
    case 'state_skip':
      return [space.heads];
    case 'state_conv.weight':
      return [space.convolved * taps];
    case 'state_conv.bias':
      return [space.convolved];
    case 'state_norm.weight':
      return [space.values];
    case 'state_in.weight':
      return [space.projected, hiddenSize];
    case 'state_in.bias':
      return [space.projected];
    case 'state_out.weight':
    case 'beside_out.weight':
      return [hiddenSize, space.values];
    case 'lightning_in.weight':
      return [3 * read, hiddenSize];
    case 'lightning_gate.weight':
      return [read, hiddenSize];
    case 'lightning_norm.weight':
      return [read];
    case 'lightning_out.weight':
      return [hiddenSize, read];
    case 'stream_router':
      return [streams.count * hiddenSize];
    case 'stream_predict':
      return [streams.count ** 3];
    case 'stream_correct':
      return [streams.count ** 2];
    case 'bypass_in.weight':
      return [streams.bypassRank, hiddenSize];
    case 'bypass_out.weight':
      return [hiddenSize, streams.bypassRank];
    case 'stream_in.1':
    case 'stream_in.2':
    case 'stream_in.3':
    case 'stream_out.1':
    case 'stream_out.2':
    case 'stream_out.3':
      return [hiddenSize, hiddenSize];
    case 'delta_norm.weight':
      return [valueDim];
    case 'delta_in.weight':
      return [channels, hiddenSize];
    case 'delta_gate.weight':
      return [valueHeads * valueDim, deltaInputs];
    case 'delta_q.weight':
    case 'delta_k.weight':
      return [keyHeads * keyDim, hiddenSize];
    case 'delta_v.weight':
      return [valueHeads * valueDim, hiddenSize];
    case 'delta_gate_in.weight':
    case 'delta_decay_in.weight':
      return [byKey?.rank ?? 0, hiddenSize];
    case 'delta_beta.weight':
      return [valueHeads, hiddenSize];
    case 'delta_decay.weight':
      return [deltaDecays, deltaInputs];
    case 'delta_out.weight':
      return [hiddenSize, valueHeads * valueDim];
    case 'token_embedding':
    case 'head.weight':
      return [vocabularySize, decoder.embedding.size];
    case 'position_embedding':
      return [decoder.contextTokens + (decoder.position.kind === 'learned' ? decoder.position.offset : 0), embedded];
    case 'type_embedding':
      return [decoder.embedding.tokenTypes ?? 0, embedded];
    case 'embedding_norm.weight':
    case 'embedding_norm.bias':
      return [embedded];
    case 'distance_embedding':
      return [2 * (decoder.attention.disentangled?.span ?? 0), hiddenSize];
    case 'relative_bias':
      return [decoder.attention.relativeBias?.buckets ?? 0, decoder.heads];
    case 'embedding_projection':
      return [hiddenSize, decoder.embedding.size];
    case 'output_projection':
      return [decoder.embedding.size, hiddenSize];
    case 'head.bias':
      return [vocabularySize];
    case 'q.weight':
      return [queries, queryRank || hiddenSize];
    case 'q_down.weight':
      return [queryRank, hiddenSize];
    case 'q_down.bias':
    case 'q_down_norm.weight':
      return [queryRank];
    case 'latent.weight':
      return [rank + rotated, hiddenSize];
    case 'latent.bias':
      return [rank + rotated];
    case 'latent_norm.weight':
      return [rank];
    case 'k_up.weight':
      return [decoder.heads * rank, plain];
    case 'v_up.weight':
      return [decoder.heads * value, rank];
    case 'input_embedding':
      return [decoder.layerInputTokens ?? vocabularySize, layerInputs];
    case 'input_projection.weight':
    case 'input_gate.weight':
      return [layerInputs, hiddenSize];
    case 'input_norm.weight':
      return [layerInputs];
    case 'input_out.weight':
      return [hiddenSize, layerInputs];
    case 'layer_scale':
      return [1];
    case 'expert_scale':
      return [count];
    case 'q.bias':
      return [queries];
    case 'v.weight':
      return [kvHeads * valueOfHead, hiddenSize];
    case 'v.bias':
      return [kvHeads * valueOfHead];
    case 'k.weight':
    case 'q_distance.weight':
    case 'k_distance.weight':
      return [keys, hiddenSize];
    case 'k.bias':
    case 'q_distance.bias':
    case 'k_distance.bias':
      return [keys];
    case 'o.weight':
      return [hiddenSize, heads * (latent ? value : valueOfHead)];
    case 'sinks':
      return [heads];
    case 'q_norm.weight':
    case 'q_norm.bias':
      return [qkNorm === 'row' || qkNorm === 'layer' ? queries : headDim];
    case 'k_norm.weight':
    case 'k_norm.bias':
      return [qkNorm === 'row' || qkNorm === 'layer' ? keys : headDim];
    case 'gate.weight':
    case 'up.weight':
      return [inner, hiddenSize];
    case 'gate.bias':
    case 'up.bias':
      return [inner];
    case 'down.weight':
      return [hiddenSize, inner];
    case 'router.weight':
      return [routed, hiddenSize];
    case 'shared_gate.weight':
      return [1, hiddenSize];
    case 'router.bias':
    case 'router.choice_bias':
      return [routed];
    case 'embedding_projection.bias':
    case 'distance_norm.weight':
    case 'distance_norm.bias':
    case 'final_norm.weight':
    case 'final_norm.bias':
    case 'norm1.weight':
    case 'norm1.bias':
    case 'norm2.weight':
    case 'norm2.bias':
    case 'post_norm1.weight':
    case 'post_norm2.weight':
    case 'router_norm.weight':
    case 'experts_norm.weight':
    case 'post_experts_norm.weight':
    case 'post_block_norm.weight':
    case 'input_post_norm.weight':
    case 'o.bias':
    case 'conv.bias':
    case 'state_out.bias':
    case 'beside_out.bias':
    case 'scan_out.bias':
    case 'stream_norm.weight':
    case 'stream_scale':
    case 'bypass_norm.weight':
    case 'down.bias':
      return [hiddenSize];
    default: {
      const [, number, part] = /^pooled\.(\d+)\.(weight|bias)$/.exec(role) ?? [];
      if (number !== undefined) return pooledShape(decoder, Number(number), part === 'weight');
      // expert.N.gate, up, down
      return roleShape(
        { ...decoder, feedForward: { ...decoder.feedForward, kind: 'gated' } },
        role.replace(/^expert\.\d+\./, '') as ExpertRole,
        layer,
      );
    }
  }
}

function pooledShape(
  { pooled = [], hiddenSize }: DecoderSpec,
  at: number,
  weight: boolean,
): readonly [number] | readonly [number, number] {
  const layer = pooled[at];
  if (layer === undefined) throw new RangeError(`pooled.${at}: found a role of a layer that the decoder does not have`);
  return weight && layer.kind === 'dense' ? [layer.outputs, pooled[at - 1]?.outputs ?? hiddenSize] : [layer.outputs];
}

/** Inner width of the block that all of a layer's tokens go through. */
function innerWidth({ feedForward, feedForwardSize }: DecoderSpec, layer: LayerSpec | undefined): number {
  const { kind, experts } = feedForward;
  if (kind !== 'experts') return layer?.innerSize ?? feedForwardSize;
  return (layer?.dense === true ? experts?.denseSize : experts?.shared?.size) ?? 0;
}
