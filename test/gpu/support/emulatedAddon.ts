import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The addon whose only GPU is emulated on the processor: `npm run test:native` builds it beside the native tests. */
export const EMULATED_ADDON = fileURLToPath(
  new URL('../../../native/build/native/tests/spillway_emulated.node', import.meta.url),
);

if (!existsSync(EMULATED_ADDON))
  throw new Error(
    `${EMULATED_ADDON}: no such file; it is built by npm run test:native, or, after that, by cmake --build native/build --target spillway_emulated`,
  );
// Of this test's process alone: jest gives each file an environment of its own.
process.env['SPILLWAY_ADDON'] = EMULATED_ADDON;
