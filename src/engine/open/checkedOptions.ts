import { stat } from 'node:fs/promises';
import { loadAddon } from '../../bindings/loadAddon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkEngineOptions } from './checkEngineOptions.js';
import { withPolicy } from './policyOptions.js';
import { settleOptions } from './settleOptions.js';

/**
 * What a caller hands to `Engine.open`, with all checked that needs no model: a model may have to be fetched first, and
 * nobody should wait for that to hear of a wrong option.
 *
 * @throws UsageError naming the option, what was found and what was expected; NativeError where there is no addon
 */
export async function checkedOptions(given: unknown): Promise<EngineOptions> {
  const options = checkEngineOptions(given);
  const machine = nativeCall(() => loadAddon().machine());
  const { gpu } = settleOptions(options, machine);
  settleOptions(withPolicy(options, gpu !== undefined), machine);
  const { disk } = options;
  if (
    disk !== undefined &&
    (await stat(disk).then(
      (status) => !status.isDirectory(),
      () => false,
    ))
  ) {
    throw new UsageError(
      `disk: found ${disk}, which is no folder, expected the path of one, or of one that can be made`,
    );
  }
  return options;
}
