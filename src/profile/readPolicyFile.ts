import { readJsonObject } from '../model/files/readJson.js';
import { parsePolicyDocument, type Policy } from '../plan/Policy.js';

const MOST_BYTES = 2 ** 20;

/**
 * Reads a policy: what `plan --json` printed or `--stats` wrote, or its `policy` alone.
 * @throws PlanFileError or another ModelFileError, naming file and field
 */
export async function readPolicyFile(path: string): Promise<Policy> {
  return parsePolicyDocument(await readJsonObject(path, MOST_BYTES), path);
}
