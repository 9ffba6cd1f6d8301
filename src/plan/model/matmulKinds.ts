import { WEIGHT_TYPES, type WeightType } from '../../model/weightTypes.js';
import type { MatmulWeights } from '../HardwareProfile.js';
import { bitsOf, type ModelShape, type WeightMix } from '../ModelShape.js';
import type { Compression } from '../Policy.js';

/** K-quants by how fast they compute: Q5_K as Q4_K does. */
const K_QUANTS: Readonly<Partial<Record<WeightType, MatmulWeights>>> = {
  Q2_K: 'q4_k',
  Q3_K: 'q4_k',
  Q4_K: 'q4_k',
  Q5_K: 'q4_k',
  Q6_K: 'q6_k',
};

/** Which products are measured for a weight type; what has as few bits already is not compressed. */
export function matmulKind({ weightType }: Pick<ModelShape, 'weightType'>, compressed: Compression): MatmulWeights {
  if (compressed === '4bit' && WEIGHT_TYPES[weightType].bits > 4) return 'q4';
  if (compressed === '8bit' && WEIGHT_TYPES[weightType].bits > 8) return 'q8';
  const nested = K_QUANTS[weightType];
  if (nested) return nested;
  const bits = bitsOf(weightType);
  if (bits >= 32) return 'f32';
  if (bits >= 16) return 'f16';
  return bits > 5.1 ? 'q8' : 'q4';
}

/** A part of a layer's weights. */
export interface KindShare {
  readonly kind: MatmulWeights;
  readonly share: number;
}

/** Costing a plan asks for the same mix many thousand times. */
const knownMixes: Readonly<Record<Compression, WeakMap<WeightMix, readonly KindShare[]>>> = {
  none: new WeakMap(),
  '8bit': new WeakMap(),
  '4bit': new WeakMap(),
};

/** The kinds of products of a layer, by their shares of its weights: several where files mix types. */
export function layerKinds(
  { weightType, weightMix }: Pick<ModelShape, 'weightType' | 'weightMix'>,
  compressed: Compression,
): readonly KindShare[] {
  if (weightMix === undefined) return [{ kind: matmulKind({ weightType }, compressed), share: 1 }];
  let kinds = knownMixes[compressed].get(weightMix);
  if (!kinds) {
    const shares = new Map<MatmulWeights, number>();
    for (const [type, share = 0] of Object.entries(weightMix) as [WeightType, number | undefined][]) {
      const kind = matmulKind({ weightType: type }, compressed);
      shares.set(kind, (shares.get(kind) ?? 0) + share);
    }
    kinds = [...shares].map(([kind, share]) => ({ kind, share }));
    knownMixes[compressed].set(weightMix, kinds);
  }
  return kinds;
}

/** Where a kind was not measured, the nearest one that was stands in. */
export const STAND_INS: Readonly<Record<MatmulWeights, readonly MatmulWeights[]>> = {
  f32: ['f32', 'f16', 'q8', 'q4', 'q6_k', 'q4_k'],
  f16: ['f16', 'f32', 'q8', 'q4', 'q6_k', 'q4_k'],
  q8: ['q8', 'q4', 'q6_k', 'q4_k', 'f16', 'f32'],
  q4: ['q4', 'q8', 'q4_k', 'q6_k', 'f16', 'f32'],
  q4_k: ['q4_k', 'q4', 'q6_k', 'q8', 'f16', 'f32'],
  q6_k: ['q6_k', 'q8', 'q4_k', 'q4', 'f16', 'f32'],
};
