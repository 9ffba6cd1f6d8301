import { sum, times } from '../../Affine.js';
import type { PhaseCost } from '../../CostModel.js';
import type { Symbols } from './symbols.js';

/**
 * One layer of the prefill of a block (FlexGen, appendix A.3), combined as its shipped search does: reads one after
 * another, writes likewise.
 */
export function prefillPhase({ l, s, h1, bls, w, flops, kv, of }: Symbols): PhaseCost {
  const hidden = 2 * s * h1 * bls;
  const cache = 4 * (s + 1) * h1 * bls * kv;
  const ctog = times(1 / of.ctogBytesPerSecond, { wc: w, wn: w, hc: hidden, hn: hidden });
  const gtoc = sum(
    times(1 / of.gtocCacheBytesPerSecond, { cc: cache, cn: cache }),
    times(1 / of.gtocHiddenBytesPerSecond, { hc: hidden, hn: hidden }),
  );
  const dtoc = times(1 / of.dtocBytesPerSecond, { wn: w, hn: hidden });
  const ctod = { cn: cache / of.ctodCachePrefillBytesPerSecond, hn: hidden / of.ctodHiddenPrefillBytesPerSecond };
  const compute = {
    constant: (bls * s * flops) / of.mmPrefillFlopsPerSecond + (4 * bls * s * s * h1) / of.bmmPrefillFlopsPerSecond,
  };
  return {
    name: 'prefill',
    times: l,
    queues: {
      'host-to-device': ctog,
      'device-to-host': gtoc,
      'disk-read': dtoc,
      'disk-write': ctod,
      'gpu-compute': compute,
    },
    bounds: [sum(ctog, dtoc), sum(gtoc, ctod), compute],
    promptShare: 1,
  };
}
