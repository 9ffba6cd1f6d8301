import { UsageError } from '../../errors/UsageError.js';
import type { Grid } from '../schedules/Square.js';
import type { Peers } from './Boundary.js';

/** @throws UsageError unless a run of an engine with these layers has engines for all of the model's */
export function checkLayers({ part }: Pick<Grid, 'part'>, peers?: Peers): void {
  if (!part && peers) throw new UsageError('peers: found some, expected none: this engine has all layers of the model');
  if (part && part.first > 0) throw new UsageError('layers: found an engine of later layers, expected one that has the first: only there rows come in; this one can follow');
  if (part && !peers) throw new UsageError('peers: found none, expected a source and a sink: this engine has a part of the layers only');
}
