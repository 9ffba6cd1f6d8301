import { dirname, resolve } from 'node:path';
import { readJsonObject } from '../model/files/readJson.js';
import { parseMachines, type PipelineMachine } from '../plan/pipeline/Machines.js';
import { builtInHardware, readHardware } from './readHardware.js';
import type { ProfileOptions } from './profileMachine.js';

const MOST_BYTES = 2 ** 20;

/**
 * Machines of a pipeline, in the order of the layers: `{ "machines": [{ "hardware": NAME|FILE, "name"?, "link"? }, …],
 * "link"? }`; files as they lie beside this one. A machine is called by its place where it has no name.
 *
 * @param options how `this` machine is measured, where that is still to be done
 * @throws UsageError, PlanFileError, ModelFileError for what cannot be used
 */
export async function readMachines(file: string, options: ProfileOptions = {}): Promise<PipelineMachine[]> {
  const { machines, link } = parseMachines(await readJsonObject(file, MOST_BYTES), file);
  const known = ['this', ...(await builtInHardware())];
  // One profile for machines that are alike: they are planned for once.
  const profiles = new Map<string, ReturnType<typeof readHardware>>();
  return await Promise.all(
    machines.map(async ({ name, hardware, link: own = link }, index) => {
      const where = known.includes(hardware) ? hardware : resolve(dirname(file), hardware);
      let profile = profiles.get(where);
      if (!profile) profiles.set(where, (profile = readHardware(where, options)));
      return { name: name ?? `${index + 1}`, hardware: await profile, link: own };
    }),
  );
}
