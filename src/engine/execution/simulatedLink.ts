import { number } from '../../arguments/memberChecks.js';
import { activationLink, type ActivationLink } from '../peers/ActivationLink.js';
import type { VirtualTime } from './VirtualTime.js';

const LATENCY = number({ least: 0, most: 3600 });

/**
 * A link between engines on simulated devices that share a clock: what is sent arrives so much later, in order. How
 * long what is sent takes the sender's end is its device's to say, as the duration of tasks on `peer-send`: bytes over
 * bandwidth.
 *
 * @param latencySeconds virtual seconds on the way, of every message
 * @param capacity hidden states that may wait at the receiver. Default 2
 */
export function simulatedLink(
  time: VirtualTime,
  { latencySeconds, capacity }: { readonly latencySeconds: number; readonly capacity?: number },
): ActivationLink {
  LATENCY('latencySeconds', latencySeconds);
  const link = activationLink(capacity === undefined ? {} : { capacity });
  /**
   * The acceptance of what has arrived last: while there is no room for it, the sender waits. What is on the way is no
   * matter.
   */
  let accepted = Promise.resolve();
  return {
    source: link.source,
    sink: {
      send: (message) => {
        time.at(time.now + latencySeconds, () => {
          accepted = link.sink.send(message);
          accepted.catch(() => undefined);
        });
        return accepted;
      },
      close: (error) => {
        time.at(time.now + latencySeconds, () => {
          link.sink.close(error);
        });
      },
    },
  };
}
