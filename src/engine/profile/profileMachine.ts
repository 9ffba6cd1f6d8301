import { UsageError } from '../../errors/UsageError.js';
import type { HardwareProfile } from '../policy/HardwareProfile.js';

/**
 * Measures this machine: links between tiers, disk, products and attention, each as a robust median with its spread, in seconds.
 * @throws UsageError as long as this build has no measurements
 */
export async function profileMachine(): Promise<HardwareProfile> {
  throw new UsageError('hardware this: this build does not measure machines; give a hardware file or a built-in name');
}
