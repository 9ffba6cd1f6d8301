// What overlapping is worth, in the order of FlexGen's ablation: everything overlapping, without each part of it in turn,
// and without all of it, where no two tasks run at once.
import { ALL_AHEAD, benchVariants, fail } from './lib/variants.mjs';

const OFF = 'overlap off';
const VARIANTS = [
  { name: 'overlap on', overlap: true },
  ...Object.keys(ALL_AHEAD).map((stage) => ({
    name: `on, ${stage} not ahead`,
    overlap: true,
    ahead: { ...ALL_AHEAD, [stage]: 0 },
  })),
  { name: 'on, stores not beside', overlap: true, stores: false },
  { name: OFF, overlap: false },
];
/** Times of tasks are taken on another thread than the run's. */
const CLOCKS = 0.005;

/** Where no two tasks run at once all queues together are busy for no longer than it takes. */
function checkSerial({ runs }) {
  for (const { variant, busyShare } of runs) {
    const busy = Object.values(busyShare).reduce((sum, share) => sum + share, 0);
    if (variant === OFF && busy > 1 + CLOCKS)
      fail(`${OFF}: found queues that are busy for ${(100 * busy).toFixed(1)}% of the time, expected at most 100%`);
  }
}

await benchVariants({
  name: 'ablation',
  title: 'Overlap',
  own: { overlap: { type: 'string', default: 'both' } },
  ownUsage: ' [--overlap on|off|both]',
  variants: ({ values }) => {
    if (!['on', 'off', 'both'].includes(values.overlap))
      fail(`--overlap: found ${values.overlap}, expected on, off or both`);
    return VARIANTS.filter(({ overlap }) => values.overlap === 'both' || overlap === (values.overlap === 'on'));
  },
  explain: checkSerial,
});
