import type { HardwareProfile } from '../../HardwareProfile.js';

/**
 * FlexGen's machine with `--pin-weight 0`, which saves host memory where weights fill it. What transfers a layer copies
 * it into pinned memory first (`general_copy` of its `pytorch_backend.py`), on the thread that starts the transfer, and
 * the link waits: the host's memory is read and written once more. Our engine pins what it sends.
 */
export function unpinnedWeights(hardware: HardwareProfile): HardwareProfile {
  const { links, cpu } = hardware;
  const { hostToDeviceBytesPerSecond: up = Infinity } = links;
  return {
    ...hardware,
    links: { ...links, hostToDeviceBytesPerSecond: 1 / (1 / up + 2 / cpu.memoryBytesPerSecond) },
  };
}
