import type { NativeRuntime } from '../../bindings/Addon.js';
import { stoppable } from '../../bindings/stoppable.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { withStoreRemedy } from './storeRemedy.js';

/**
 * Loads a runtime's weights, from the model's files or from its store. A runtime that fails to is of no use, and may be
 * closed already.
 *
 * @param storePath the store, where there is one: discarded if it is damaged
 * @throws ModelFileError naming file and tensor, or layer; InterruptedError when the signal fires
 */
export async function loadWeights(
  runtime: NativeRuntime,
  storePath: string | undefined,
  { signal, onLoad }: Pick<EngineOptions, 'signal' | 'onLoad'>,
): Promise<void> {
  const total = runtime.bytes.weights;
  const report = onLoad && ((bytes: number): void => onLoad(bytes, total));
  try {
    await stoppable(signal, report, (onProgress) =>
      runtime.load((bytes: number) => {
        // Nothing but closing the runtime ends a load.
        if (!onProgress(bytes)) void runtime.close();
      }),
    );
  } catch (error) {
    throw withStoreRemedy(error, storePath);
  }
}
