import { sum, times } from '../../Affine.js';
import type { PhaseCost } from '../../CostModel.js';
import type { Symbols } from './symbols.js';

/**
 * One layer of one decode step of a block, its cache at its average length; as shipped, reading to the GPU overlaps
 * with nothing.
 */
export function decodePhase({ l, s, n, h1, gbs, bls, w, flops, kv, of }: Symbols): PhaseCost {
  const hidden = 2 * h1 * bls;
  const oldCache = 4 * bls * (s + n / 2) * h1;
  const ctog = times(1 / of.ctogBytesPerSecond, { wc: w, wn: w, hc: hidden, hn: hidden });
  const gtoc = times(1 / of.gtocHiddenBytesPerSecond, { hc: hidden, hn: hidden });
  const dtoc = {
    cn: (oldCache * kv) / of.dtocBytesPerSecond,
    hn: hidden / of.dtocBytesPerSecond,
    wn: w / (of.dtocWeightsFactor * of.dtocBytesPerSecond),
  };
  const ctod = times(1 / of.ctodDecodeBytesPerSecond, { cn: 4 * bls * h1 * kv, hn: hidden });
  // The CPU is slower with small batches and small models.
  const x = Math.max(0, Math.log2(64 / gbs));
  const y = Math.max(0, Math.log2(4096 / h1));
  const cpu = of.cpuFlopsPerSecond * Math.max(0.1, 1 + of.c1 * x * y - of.c2 * x - of.c3 * y);
  const onGpu = { constant: (bls * flops) / of.mmDecodeFlopsPerSecond, cg: oldCache / of.bmmDecodeFlopsPerSecond };
  const onCpu = times(oldCache / cpu, { cc: 1, cn: 1 });
  const compute = sum(onGpu, onCpu);
  return {
    name: 'decode',
    times: l * (n - 1),
    queues: {
      'host-to-device': ctog,
      'device-to-host': gtoc,
      'disk-read': dtoc,
      'disk-write': ctod,
      'gpu-compute': onGpu,
      'cpu-compute': onCpu,
    },
    bounds: [sum(ctog, gtoc), sum(ctog, dtoc), sum(ctog, ctod), sum(ctog, compute)],
    promptShare: 0,
  };
}
