import type { ResultIdentity } from '../../open/resultIdentity.js';
import type { BlockShape } from '../PeerMessage.js';
import type { LayerPlace } from './layerPlace.js';

/** What an engine has to be known by before it shares a model's layers with others over sockets. */
export interface EngineFacts {
  /** What decides its results, but for which layers it has: the same in all engines, or bits would differ. */
  readonly identity: Omit<ResultIdentity, 'layers' | 'hiddenStates'>;
  readonly layers: LayerPlace;
  /** Its slots, as `BeginMessage.grid` has them. */
  readonly block: BlockShape;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly contextTokens: number;
}
