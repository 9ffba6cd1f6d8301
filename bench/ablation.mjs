// What overlapping is worth: the same rows with all stages overlapping, with none, and with each stage's look-ahead
// taken away in turn.
import { ALL_AHEAD, benchVariants, fail } from './lib/variants.mjs';

const VARIANTS = [
  { name: 'overlap on', overlap: true },
  ...Object.keys(ALL_AHEAD).map((stage) => ({
    name: `on, ${stage} not ahead`,
    overlap: true,
    ahead: { ...ALL_AHEAD, [stage]: 0 },
  })),
  { name: 'overlap off', overlap: false },
];

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
});
